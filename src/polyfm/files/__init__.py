"""What stands between a file and a model: safe reading, atomic writing, and the containers and texts themselves."""
