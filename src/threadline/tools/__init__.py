"""What an agent may do: typed functions with a name, the context they run in, and the policies around each call."""
