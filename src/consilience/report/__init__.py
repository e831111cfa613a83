"""Tables and the page of a run: a run in, text and one page that opens offline out."""
