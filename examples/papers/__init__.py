"""A graph of papers, their authors and topics, searched by words, by meaning, and along citations."""
