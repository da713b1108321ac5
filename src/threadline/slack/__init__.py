"""What the product says in Slack: the calls it makes, how it says things, and each thing once."""
