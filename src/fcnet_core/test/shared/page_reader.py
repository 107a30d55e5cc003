"""Reads a page that a program has written, without a browser."""

from html.parser import HTMLParser

WITHOUT_END = {"meta", "path", "rect", "br", "input"}


class PageReader(HTMLParser):
    """What a page consists of: its elements are closed in order, and it loads nothing."""

    def __init__(self, content):
        super().__init__()
        self._open = []
        self.words, self.scripts, self.elements = [], [], set()
        self.attributes = []  # names and values
        self.feed(content)
        assert not self._open
        assert not {name for name, _ in self.attributes} & {"src", "href"}
        assert not self.elements & {"link", "img", "iframe", "object"}
        assert not any(name.startswith("on") for name, _ in self.attributes)
        assert any((value or "").startswith("default-src 'none'") for _, value in self.attributes)

    def handle_starttag(self, tag, attributes):
        self.elements.add(tag)
        self.attributes += attributes
        if tag not in WITHOUT_END:
            self._open.append(tag)

    def handle_endtag(self, tag):
        if tag not in WITHOUT_END:
            assert self._open.pop() == tag

    def handle_data(self, content):
        (self.scripts if self._open[-1:] == ["script"] else self.words).append(content)
