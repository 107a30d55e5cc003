"""The policies: a registry and one folder per architecture."""
