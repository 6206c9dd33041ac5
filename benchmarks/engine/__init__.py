"""The bundled engine on a GPU."""
