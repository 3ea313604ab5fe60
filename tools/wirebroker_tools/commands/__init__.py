"""The commands of the tools, a module for each; `parsers` has their flags."""
