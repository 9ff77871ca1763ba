"""What is made of a plan: the text of a job, and its explanation. Nothing is decided here."""
