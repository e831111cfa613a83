"""What all other packages use: errors, options, registries, TOML, plugins, rows, files."""
