"""The Fourier Controller Network (FCNet, ICML 2024): configuration, network and runtimes."""
