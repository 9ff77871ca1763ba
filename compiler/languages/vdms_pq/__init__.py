"""VDMS-PQ, a language for sensors in vehicles: SASE's sequences in other words, with three rules of its own."""
