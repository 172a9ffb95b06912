"""Schemas as text -> catalogs with countable ids, for every test of the catalog."""

from __future__ import annotations

from itertools import count

from omnigraph.catalog import Catalog, build_catalog
from omnigraph.catalog.identity import Mint
from omnigraph.lang import parse_schema

CINEMA = """
interface Titled { title: String @index }
node Film implements Titled {
  slug: String @key
  year: I32
  rating: F64?
  votes: U64?
  released: Date?
  added_at: DateTime?
  genres: [String]?
  status: enum(draft, released, archived)
  plot: String? @index
  vec: Vector(3)?
  @range(year, 1888..2100)
  @check(slug, "^[a-z0-9-]+$")
}
node Person { name: String @key  born: I32?  email: String? @unique }
node Studio { name: String @key  city: String? }
node Script { code: String @key  body: Blob? }
node Screening { hall: I32  film: String  at: DateTime?  @key(hall, film) }
node Note { text: String }
edge ActedIn: Person -> Film { role: String?  billing: I32? }
edge Directed: Person -> Film @card(0..2)
edge Influenced: Person -> Person { strength: F32? }
edge MadeBy: Film -> Studio @card(0..1)
"""


def counting(start: int = 0) -> Mint:
    """Ids that count up from `start`: 0000000000000000, 0000000000000001, ..."""
    numbers = count(start)
    return lambda: f"{next(numbers):016x}"


def catalog_of(text: str, *, start: int = 0) -> Catalog:
    return build_catalog(parse_schema(text), mint=counting(start))
