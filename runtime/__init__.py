"""What generated jobs import: the pattern's description, the kernel around it, and the job's front door."""
