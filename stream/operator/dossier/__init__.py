"""The dossier: the document that a controller and a data protection officer sign and file."""
