"""A run in; tables, figures and one page out."""
