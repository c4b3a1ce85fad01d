"""The judge's prompts, by language, and the form of the replies they ask for."""
