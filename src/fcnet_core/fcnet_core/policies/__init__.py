"""The policies: a registry, the layers that architectures share, and one folder per architecture."""
