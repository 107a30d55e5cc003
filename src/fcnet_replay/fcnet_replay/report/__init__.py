"""The report of a replay as one HTML page: no scripts, nothing loaded, plots as inline SVG."""
