"""What all languages share: the bound query and what it is made of."""
