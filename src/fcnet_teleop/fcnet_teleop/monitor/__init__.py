"""Shows a robot in browsers and lets people drive it."""
