"""The Fourier Controller Network: network, training, real-time runtimes, model files and datasets."""
