"""The local web page: read-only views of a table or of a warehouse, as plain HTML and SVG.

`server` answers requests and refuses those from elsewhere; `site` knows which tables there are;
`pages` maps a path to a page. The other modules draw one subject each. A page is complete without
its script, which only loads the slow sections after the first paint.
"""
