"""A schema and a query file that use the whole of both languages."""

SCHEMA = """\
// films and the people who make them
interface Titled { title: String @index  year: I32? }

node Film @description("A motion picture.") @instruction("Prefer \\"title\\" over slug.") implements Titled, Dated {
  slug: String @key
  rating: F64?
  votes: U64?
  genres: [String]?
  status: enum(draft, released, sci-fi, 2-d, 3D)
  plot: String? @index @rename_from("synopsis")
  body: Blob?
  vec: Vector(3)? @embed(plot, model="small") @default(3) @pii
  @range(year, 1888..2100) @range(rating, -0.5..) @range(votes, ..10)
  @check(slug, "^[a-z0-9-]+$")
  @unique(title, year) @index(year)
}

node Person { name: String @key  born: I32?  email: String? @unique }
node Screening { hall: I32  film: String  at: DateTime?  on: Date  @key(hall, film) }
edge ActedIn: Person -> Film { role: String?  @unique(src, dst) }
edge Directed: Person -> Film @card(0..2) @description("Who directed it.")
edge Influenced: Person -> Person @card(1..) { strength: F32? }
/* the end */
"""

QUERIES = """\
query similar($q: Vector(3), $name: String, $after: I32?, $tags: [String]?) @description("Films \\n near") @instruction("Use it.") {
  match {
    $p: Person { name: $name, born: -1950, }
    $p $r:actedIn $f
    $p <influenced>{1,3} $o
    $o influenced{1,} $_
    $f.year >= $after
    $f.title starts_with "A"  $f.genres contains "scifi"  $tags contains $f.slug
    $f.released != date("1979-05-25")
    $f.added_at < now()
    search($f.plot, "space") fuzzy($f.plot, "spcae", 1) = true
    not { $o directed $f  not { $f.rating < 8.5  match_text($f.plot, "x") } }
  }
  return { $f.slug as s, $f  count($o) as n, sum($f.votes), nearest($f.vec, [1.0, 0.0, 0.0]) as distance }
  order { rrf(nearest($f.vec, $q), bm25($f.plot, "thief"), 60) desc, n asc, $f.year }
  limit 10
}
query change($slug: String) {
  insert Film { slug: $slug, title: "x" year: 2000 added_at: datetime("2024-01-01T00:00:00Z") }
  insert ActedIn { from: "Ada", to: $slug }
  update Film set { rating: 8.5, genres: ["a", "b"], seen: false } where slug = $slug
}
query more($names: [String], $n: I64, $flag: Bool) {
  match {
    $x: Titled { id: "alien" }
    ($x.year < 1980 or $x.year > 2000) and not ($x.title ends_with "s")
    $x.title in $names  $x.year not in [1979, 1980]  $x.year is not null  $flag or $x.seen
    optional { $p actedIn|directed $x  $p.born + 1 >= 1950 - 2 * -3 }
    exists { $p <knows|influenced>{2} $q }
    either { $p actedIn $x } or { $p directed $x } or { $p.name = "Ada" }
    path $w = $p influenced{1,5} $q
  }
  return distinct {
    type($x) as t, lower($x.title) + "!" as l, count(*), count(distinct $p), collect($q.name), sum($x.votes) / count(*) as mean,
    length($w), nodes($w) as via, coalesce($p.born, 0) % 7 as c
  }
  order { t desc nulls last, l nulls first, c }
  skip $n
  limit 5
}
query upkeep($who: String) {
  create Person { name: $who, born: 1950 + 1 }
  upsert Person { name: $who, seen: now(), visits: coalesce(visits, 0) + 1 }
  update ActedIn set { role: role + "!" } where from = $who and (billing > 1 or billing is null)
  match { $p: Person  $p actedIn $f  $f.year < 1980 }
  update $p set { born: $p.born + 1 }
  insert Knows { from: $p, to: "Ada" }
}
query unlink() { match { $p: Person { name: "Ada" }  $p $r:actedIn $f } delete $r, $f }
query clear() { delete ActedIn where from = "Ada" delete Person where born <= 1900 }
"""
