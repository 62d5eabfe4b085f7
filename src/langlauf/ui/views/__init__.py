"""Views of a result: tables, charts, maps, texts, images and files, each a panel of a page."""
