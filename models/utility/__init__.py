"""What a release is still worth: distances, graphs, discovery."""
