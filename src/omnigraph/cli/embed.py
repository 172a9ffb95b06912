"""`omnigraph embed`: a file of records -> the same file with vectors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from omnigraph.cli import output
from omnigraph.cli.files import atomic_file, read_source
from omnigraph.cli.progress import Line
from omnigraph.cli.scope import EMBED, PATH, Flags, GivenOnce, admit, command_flags, takes
from omnigraph.errors import InvalidInput, Kind
from omnigraph.grid import counted

if TYPE_CHECKING:
    from omnigraph.embed.files import EmbedSpec

DEFAULT_SEED_OUTPUT = "./build/seed.embedded.jsonl"


class _EmbedJob(NamedTuple):
    """The files of one run, and what to embed."""

    input: Path
    output: Path
    spec: EmbedSpec


@click.command(cls=GivenOnce)
@click.option("--seed", type=PATH, help="A manifest (YAML) that names the input, the output and the specification.")
@click.option("--input", "input_", type=PATH, help="The records, one JSON object a line.")
@click.option("--spec", type=PATH, help='The specification (JSON): {"dimension": N, "types": {"T": {"target": "p", "fields": [..]}}}.')
@click.option(
    "--output", "output_", type=PATH, help="The file to write. Default: that of the manifest, or INPUT with `.embedded` in its name."
)
@click.option("--reembed-all", is_flag=True, help="Embed every record anew.")
@click.option("--clean", is_flag=True, help="Remove vectors instead.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only records of this type. May be repeated.")
@click.option("--select", multiple=True, metavar="[TYPE:]FIELD=VALUE", help="Embed the records with this value anew. May be repeated.")
@takes(EMBED)
@command_flags
def embed(
    flags: Flags,
    *,
    seed: Path | None,
    input_: Path | None,
    spec: Path | None,
    output_: Path | None,
    reembed_all: bool,
    clean: bool,
    types: tuple[str, ...],
    select: tuple[str, ...],
    as_json: bool,
) -> None:
    """Add vectors to a file of records."""
    admit(flags, "embed", EMBED)
    if reembed_all and clean:
        raise click.UsageError("--reembed-all and --clean exclude each other")
    if (seed is None) == (input_ is None and spec is None) or (seed is None and (input_ is None or spec is None)):
        raise click.UsageError("give --seed, or --input and --spec")
    from omnigraph.embed import resolve_embedder
    from omnigraph.embed.files import EmbeddedFile, EmbedMode, RecordSelection, RecordSelector, embed_lines

    job = _seed_job(seed, output_) if seed is not None else _file_job(input_, spec, output_)
    mode = EmbedMode.FILL_MISSING
    if clean or reembed_all or select:
        mode = EmbedMode.CLEAN if clean else EmbedMode.REEMBED_ALL if reembed_all else EmbedMode.REEMBED_SELECTED
    selection = RecordSelection(mode, frozenset(types), tuple(map(RecordSelector.parse, select)))
    embedder = None if clean else resolve_embedder(None, os.environ)
    done = EmbeddedFile()
    with atomic_file(job.output) as file, Line("embed", quiet=flags.quiet) as line:
        for written in embed_lines(_lines(job.input), job.spec, selection, embedder, done):
            file.write(written)
            line.draw(f"{counted(done.records, 'record')}, {done.embedded:,} embedded")
    if as_json:
        output.document(
            {
                "input": str(job.input),
                "output": str(job.output),
                "records": done.records,
                "selected_records": done.selected,
                "embedded_records": done.embedded,
                "cleaned_records": done.cleaned,
                "mode": mode.value,
                "dimension": job.spec.dimension,
                "model": None if embedder is None else embedder.model,
            }
        )
        return
    output.line(f"wrote {job.output}: {counted(done.records, 'record')}, {done.embedded} embedded, {done.cleaned} cleaned ({mode})")


def _file_job(input_: Path | None, spec: Path | None, output_: Path | None) -> _EmbedJob:
    from omnigraph.embed.files import decode_spec

    assert input_ is not None
    assert spec is not None
    source = read_source(spec, what="specification")
    try:
        decoded = decode_spec(json.loads(source.text))
    except json.JSONDecodeError as error:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"the specification '{spec}' is not JSON: {error}", path=str(spec)) from None
    return _EmbedJob(input_, output_ or input_.with_name(f"{input_.stem}.embedded{input_.suffix}"), decoded)


def _seed_job(seed: Path, output_: Path | None) -> _EmbedJob:
    import yaml

    from omnigraph.embed.files import decode_spec

    try:
        manifest = yaml.safe_load(read_source(seed, what="manifest").text)
    except yaml.YAMLError as error:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"the manifest '{seed}' is not YAML: {error}", path=str(seed)) from None
    raw = _member(manifest, "sources", "raw_seed")
    if not isinstance(raw, str):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"the manifest '{seed}' names no file in sources.raw_seed", path=str(seed))
    written = _member(manifest, "artifacts", "embedded_seed")
    target = written if isinstance(written, str) else DEFAULT_SEED_OUTPUT
    made = output_ or seed.parent / target
    made.parent.mkdir(parents=True, exist_ok=True)
    return _EmbedJob(seed.parent / raw, made, decode_spec(_member(manifest, "embeddings")))


def _member(value: object, *names: str) -> Any:
    """A member of nested mappings, or None."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        why = "no such file" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"cannot read '{path}': {why}", path=str(path)) from error
