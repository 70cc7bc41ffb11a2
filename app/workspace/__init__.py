"""Compile time: a folder of YAML and Markdown in, one frozen value or all its mistakes out."""
