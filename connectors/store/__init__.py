"""Places for releases: a local folder or an object store, behind one interface."""
