"""Where releases are written: a local folder or an object store, behind one interface."""
