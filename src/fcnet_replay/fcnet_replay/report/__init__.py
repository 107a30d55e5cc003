"""Reports of runs as HTML pages that load nothing."""
