"""Option sets on a model hub: downloads equal uploads bit by bit, and anything else is refused."""

import json
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

import equinox as eqx
import numpy as np
import pytest
import yaml

from cooptions.envs.scenarios import make_env
from cooptions.errors import ArtifactError, ConfigError
from cooptions.options.macro import MacroConfig
from cooptions.options.sharing import hub_requests
from cooptions.options.sharing.hub import HubName, is_hub_name, pinned, read_hub
from cooptions.options.sharing.sealed import LARGEST_TOTAL, format_manifest
from cooptions.options.sharing.storage import FORMAT, OPTION_SETS, load_option_set, load_reports, option_set_files
from cooptions.playground.library import Library
from cooptions.runs.config import LearningConfig, code_from_outside
from cooptions.runs.presets import preset
from cooptions.runs.run import given_options

NAME = "hf://someone/options"
MADE = {"command": "cooptions options quick"}
PICTURES = {"e1-plus.png": bytes(range(256))}


@pytest.fixture(scope="module")
def files(tiny_env, tiny_set, tiny_reports):
    told = {"provenance": MADE, "pictures": PICTURES, "scenario": "grid-5x5-2p"}
    return option_set_files(tiny_set, tiny_env, tiny_reports, **told)


@pytest.fixture
def shared(hub, files):
    """The repository of a set that another user has uploaded."""
    return hub.add("someone/options", {**files, "manifest.json": format_manifest(files, FORMAT)})


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("COOPTIONS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "hub"


def refused(env, name=NAME):
    """The one-line error with which a set is refused within a second."""
    begun = time.process_time()  # processor time, including the hub's: independent of the machine's load
    with pytest.raises(ArtifactError) as caught:
        load_option_set(name, env)
    assert time.process_time() - begun < 1
    message = str(caught.value)
    assert message.isprintable()
    assert name in message
    return message


def downloads(hub):
    return [line for line in hub.asked if "/resolve/" in line]


def test_downloads_equal_uploads_bit_by_bit(hub, tiny_env, tiny_set):
    pushed = tiny_set.push(NAME, tiny_env, scenario="grid-5x5-2p")
    again = load_option_set(NAME, tiny_env)
    assert eqx.tree_equal(again, tiny_set)
    assert eqx.tree_equal(load_option_set(pushed, tiny_env), tiny_set)
    assert pushed == f"{NAME}@{hub.repositories['someone/options'].head}"
    assert [report.name for report in load_reports(NAME)] == ["+e1", "-e1", "+e2", "-e2"]
    assert not hub.repositories["someone/options"].private
    assert {name for name in hub.repositories["someone/options"].files if not name.startswith("cards/")} == {
        *(".gitattributes", "README.md", "manifest.json", "option_set.json", "policies.safetensors"),
    }


def test_the_card_has_the_hubs_header(hub, tiny_env, tiny_set):
    tiny_set.push(NAME, tiny_env, scenario="grid-5x5-2p", license="cc-by-4.0", private=True)
    repository = hub.repositories["someone/options"]
    _, head, page = repository.files["README.md"].decode().split("---\n", 2)
    told = yaml.safe_load(head)
    assert (told["library_name"], told["license"]) == ("cooptions", "cc-by-4.0")
    assert {"multi-agent-reinforcement-learning", "grid-5x5-2p", "grid", "arxiv:2512.24827"} <= set(told["tags"])
    assert f'co.load_options("{NAME}", env)' in page
    assert "https://arxiv.org/abs/2512.24827" in page
    assert repository.private


def test_a_second_push_replaces_the_first(hub, shared, tiny_env, make_set):
    first = NAME + "@" + shared.head
    other = make_set(seed=1)
    files = option_set_files(other, tiny_env, (), provenance={})
    OPTION_SETS.push(NAME, files)
    assert eqx.tree_equal(load_option_set(NAME, tiny_env), other)
    assert not any(name.startswith("cards/") for name in shared.files)
    assert not eqx.tree_equal(load_option_set(first, tiny_env), other), "an earlier commit stays as it was"


def test_a_push_without_changes_makes_no_commit(hub, shared, files):
    before = shared.head
    OPTION_SETS.push(NAME, files)
    assert shared.files == shared.commits[before]


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        ({"model.bin": b"x"}, '"model.bin" is no file of cooptions; push to another name'),
        ({"manifest.json": b'{"format": "cooptions team 1"}'}, 'it holds "cooptions team 1", not a cooptions option'),
        ({"manifest.json": b"<html>"}, "not JSON"),
        ({"README.md": b"# mine"}, ""),
    ],
)
def test_repositories_of_another_kind_are_not_overwritten(there, reason, hub, files):
    repository = hub.add("someone/options", there)
    if reason:
        with pytest.raises(ArtifactError, match=reason):
            OPTION_SETS.push(NAME, files)
    else:
        OPTION_SETS.push(NAME, files)
    assert len(repository.commits) == (1 if reason else 2)


def test_without_a_token_or_the_right_nothing_is_pushed(hub, files, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_of_another")
    with pytest.raises(ArtifactError, match=f"{NAME}: no such repository, or a private one.*hf auth login"):
        OPTION_SETS.push(NAME, files)
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(ArtifactError, match=f"{NAME}: no token: `hf auth login`"):
        OPTION_SETS.push(NAME, files)
    with pytest.raises(ConfigError, match="a commit cannot be changed"):
        OPTION_SETS.push(f"{NAME}@{'0' * 40}", files)
    assert hub.repositories == {}


@pytest.mark.parametrize(
    ("quirk", "reason"),
    [
        (lambda answer: answer.send(b"", 500), "the hub answers 500"),
        (lambda answer: answer.send(b"<html>"), "answers what cannot be used: Expecting value"),
        (lambda answer: setattr(answer, "close_connection", True), "cannot be reached: Server disconnected"),
    ],
)
def test_a_hub_that_fails_is_one_line(quirk, reason, hub, files):
    hub.quirks = {"repos/create": quirk}
    with pytest.raises(ArtifactError, match=f"{NAME}: .*{reason}") as caught:
        OPTION_SETS.push(NAME, files)
    assert str(caught.value).isprintable()


def test_sets_that_could_not_be_loaded_are_not_pushed(hub, tiny_env, tiny_set):
    bad = eqx.tree_at(lambda options: options.network.head.biases[0], tiny_set, replace_fn=lambda leaf: leaf / 0)
    with pytest.raises(ArtifactError, match="not finite"):
        bad.push(NAME, tiny_env)
    with pytest.raises(ConfigError, match="license must be a hub's name of one"):
        tiny_set.push(NAME, tiny_env, license="All rights reserved")
    assert hub.asked == []


def test_names():
    assert HubName.parse("hf://a/b") == HubName("a/b", "main")
    assert HubName.parse("hf:/a/b@v1.0") == HubName("a/b", "v1.0")  # as a Path prints it
    assert str(HubName.parse("hf://a/b@pull/3")) == "hf://a/b@pull/3"
    assert is_hub_name("hf://a/b")
    assert not is_hub_name("runs/hf")
    for wrong in ("hf://a", "hf://a/b/c", "hf://a/../b", "hf://a/b@", "hf://a/b@../x", "hf://a/b--c", "hf://a/b@x y"):
        with pytest.raises(ConfigError, match="a name on the hub is hf://owner/name"):
            HubName.parse(wrong)


def test_hub_names_work_like_paths(hub, shared, tiny_env, tiny_set):
    assert eqx.tree_equal(given_options(NAME, tiny_env), tiny_set)
    assert MacroConfig(option_set=NAME).files == ()
    stored = {"scenario": "hf://a/b", "learning": {"macro": {"option_set": NAME}}}
    assert code_from_outside(stored) == {"scenario": "hf://a/b"}, "a set is data, a scenario would be code"


def test_the_playground_opens_a_set_of_a_hub(hub, shared, tiny_set):
    (subject,) = Library.of([Path(NAME)], scenario="grid-5x5-2p").subjects  # a Path drops a slash
    assert subject.describe()["name"] == "options"
    assert eqx.tree_equal(subject.open().options, tiny_set)
    with pytest.raises(ConfigError, match="say which scenario its options are played in"):
        Library.of([Path(NAME)])


def test_a_run_takes_one_commit_from_beginning_to_end(hub, shared, tiny_env, make_set):
    first, config = shared.head, replace(preset("quick"), learning=LearningConfig(macro=MacroConfig(option_set=NAME)))
    assert config.pinned.learning.macro.option_set == f"{NAME}@{first}"
    shared.commit({**shared.files, "more": b"x"})
    assert config.stage_config("learning")["learning"]["macro"]["option_set"] == f"{NAME}@{first}"
    assert "macro" not in config.stage_config("walk")
    OPTION_SETS.push(NAME, option_set_files(make_set(seed=1), tiny_env, (), provenance={}))
    assert config.pinned.learning.macro.option_set == f"{NAME}@{shared.head}", "what one pushes oneself is known"
    assert config.pinned.pinned == config.pinned
    assert pinned("runs/first") == "runs/first"


def test_a_commit_is_downloaded_once(hub, shared, cache, tiny_env, tiny_set, monkeypatch):
    load_option_set(NAME, tiny_env)
    once = downloads(hub)
    load_option_set(NAME, tiny_env)
    assert downloads(hub) == once
    (kept,) = cache.glob("*/someone--options/*")
    assert kept.name == shared.head
    weights = kept / "policies.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert eqx.tree_equal(load_option_set(NAME, tiny_env), tiny_set), "what is damaged is fetched again"
    assert len(downloads(hub)) == 2 * len(once)
    hub.asked.clear()
    load_option_set(f"{NAME}@{shared.head}", tiny_env)
    assert hub.asked == [], "a commit cannot change"


def test_the_cache_of_one_hub_is_not_that_of_another(hub, shared, cache, tiny_env, monkeypatch):
    load_option_set(NAME, tiny_env)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert "cannot be reached" in refused(tiny_env, f"{NAME}@{shared.head}")


def test_an_unwritable_cache_is_skipped(hub, shared, tmp_path, tiny_env, tiny_set, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("COOPTIONS_CACHE", str(tmp_path / "file"))
    assert eqx.tree_equal(load_option_set(NAME, tiny_env), tiny_set)


def test_sets_downloaded_by_other_tools_are_accepted(files, tmp_path, tiny_env, tiny_set):
    """`git clone` and `hf download` add their own files."""
    path = tmp_path / "clone"
    OPTION_SETS.write(path, files)
    (path / ".git" / "objects" / "ab").mkdir(parents=True)
    (path / ".gitattributes").write_text("*.safetensors filter=lfs")
    (path / ".cache" / "huggingface" / "download").mkdir(parents=True)
    assert eqx.tree_equal(load_option_set(path, tiny_env), tiny_set)
    with pytest.raises(ArtifactError, match="holds .cache, which would be lost"):
        OPTION_SETS.write(path, files)
    assert (path / ".git").exists()
    (path / "cards" / ".git").write_bytes(b"")
    with pytest.raises(ArtifactError, match='does not name the file "cards/.git"'):
        load_option_set(path, tiny_env)
    shutil.rmtree(path / ".git")
    (path / ".git").symlink_to(tmp_path)
    with pytest.raises(ArtifactError, match='".git" is a link'):
        load_option_set(path, tiny_env)


def test_private_and_missing_repositories_give_the_same_error(hub, shared, tiny_env, monkeypatch):
    assert "no such revision" in refused(tiny_env, f"{NAME}@v2")
    assert "no such repository, or a private one" in refused(tiny_env, "hf://someone/else")
    shared.private = True
    load_option_set(NAME, tiny_env)
    monkeypatch.delenv("HF_TOKEN")
    assert "no such repository, or a private one: check the name; `hf auth login`" in refused(tiny_env)


def test_a_set_for_another_environment_is_refused_by_its_name(hub, shared):
    assert f"{NAME}: made for another environment: " in refused(make_env("grid-5x6-2p"))


def test_an_unreachable_hub_is_one_line(tiny_env, monkeypatch):
    assert f"{NAME}: http://127.0.0.1:9 cannot be reached" in refused(tiny_env)
    for address in ("nowhere", "ftp://127.0.0.1", "http://[", "http://"):
        monkeypatch.setenv("HF_ENDPOINT", address)
        with pytest.raises(ConfigError, match="HF_ENDPOINT must be the address of a hub"):
            load_option_set(NAME, tiny_env)


def sends(content, status=200, **headers):
    return lambda answer: answer.send(content, status, **headers)


def endless(answer, status=200):
    """An endless response without a length."""
    answer.send_response(status)
    answer.end_headers()
    while True:
        answer.wfile.write(b" " * (1 << 16))


def dripping(answer):
    """A response that sends single bytes slowly."""
    answer.send_response(200)
    answer.send_header("Content-Length", "100")
    answer.end_headers()
    for _ in range(50):
        answer.wfile.write(b" ")
        time.sleep(0.05)


def silent(answer):
    time.sleep(2)


def short(answer):
    """A response with fewer bytes than announced."""
    answer.send_response(200)
    answer.send_header("Content-Length", "100")
    answer.end_headers()
    answer.wfile.write(b"{")
    answer.close_connection = True


def lost(answer):
    """A listed file that no longer exists."""
    answer.refuse(404, "EntryNotFound")


def gone(answer):
    """No response."""
    answer.close_connection = True


def listed(**entry):
    """A listing with an additional entry."""
    return lambda entries: [*entries, {"type": "file", "oid": "0" * 40, "size": 1, "path": "extra"} | entry]


def relisted(path, **entry):
    """A listing with a changed entry."""
    return lambda entries: [each | entry if each["path"] == path else each for each in entries]


@dataclass
class Hostile:
    """A malicious behaviour of a hub or of a repository's owner."""

    reason: str
    quirks: dict = None
    lists: object = None
    files: dict = None
    patience: float = 10.0
    """Seconds for which nothing needs to come: few, where it is waited for in vain."""


REVISION, TREE, WEIGHTS, MANIFEST = "/revision/", "/tree/", "policies.safetensors", "resolve/[0-9a-f]+/manifest.json"
STORED = "/stored/.*policies.safetensors"
HOSTILE = {
    "an error of the server": Hostile("the hub answers 500; try again later", {REVISION: sends(b"", 500)}),
    "an error while it lists": Hostile("the hub answers 503; try again later", {TREE: sends(b"", 503)}),
    "an error in a file": Hostile(f"{WEIGHTS}: the hub answers 500", {STORED: sends(b"", 500)}),
    "an error without end": Hostile("the hub answers 500", {REVISION: lambda answer: endless(answer, 500)}),
    "a commit without end": Hostile("sends more than the 2097152 bytes", {REVISION: endless}),
    "too many requests": Hostile("too many requests", {REVISION: sends(b"", 429)}),
    "a gated repository": Hostile("asks for a request first", {REVISION: sends(b"", 403, X_Error_Code="GatedRepo")}),
    "a refusal": Hostile("access is refused", {TREE: sends(b"", 403)}),
    "HTML for a commit": Hostile("not JSON", {REVISION: sends(b"<html>\n<body>Welcome to this hotel</body>")}),
    "HTML for a listing": Hostile("not JSON", {TREE: sends(b"<html>")}),
    "HTML for a manifest": Hostile("bytes, not the", {MANIFEST: sends(b"<html>")}),
    "a list for a commit": Hostile("must hold a JSON object", {REVISION: sends(b"[]")}),
    "no commit": Hostile("names the commit null, which is no SHA-1", {REVISION: sends(b"{}")}),
    "a commit that is a path": Hostile("which is no SHA-1", {REVISION: sends(b'{"sha": "../../../../etc"}')}),
    "a commit that is a number": Hostile("which is no SHA-1", {REVISION: sends(b'{"sha": 7}')}),
    "an object for a listing": Hostile("lists no files", {TREE: sends(b"{}")}),
    "a listing of numbers": Hostile("only plain files are loaded", {TREE: sends(b"[1]")}),
    "a listing that nests": Hostile("nests too deeply", {TREE: sends(b"[" * 100_000)}),
    "a listing of many pages": Hostile("more files than fit one page", {TREE: sends(b"[]", Link='</x>; rel="next"')}),
    "a listing without end": Hostile("sends more than the 2097152 bytes", {TREE: endless}),
    "a listing of nothing": Hostile("no manifest.json: neither an option set", lists=lambda entries: []),
    "a listing of too much": Hostile("lists no files", lists=lambda entries: entries * 1000),
    "a commit that drips": Hostile("too slowly", {REVISION: dripping}, patience=0.15),
    "a file that drips": Hostile("too slowly", {STORED: dripping}, patience=0.15),
    "silence": Hostile("cannot be reached: timed out", {REVISION: silent}, patience=0.15),
    "silence in a file": Hostile("cannot be reached: timed out", {STORED: silent}, patience=0.15),
    "a line that breaks": Hostile("cannot be reached: ", {REVISION: short}),
    "no answer": Hostile("cannot be reached: ", {TREE: gone}),
    "a redirect to itself": Hostile("cannot be reached: Exceeded", {REVISION: sends(b"", 302, Location="/revision/")}),
    "a redirect to a file": Hostile("cannot be reached", {MANIFEST: sends(b"", 302, Location="file:///etc/passwd")}),
    "a file without end": Hostile(f"{WEIGHTS}: the hub sends more than the ", {STORED: endless}),
    "a file that is longer": Hostile("sends more than the ", {STORED: sends(b"x" * 100_000)}),
    "a file that is shorter": Hostile("bytes, not the ", {STORED: sends(b"x")}),
    "a file that is not there": Hostile("a file that the hub lists is not there", {STORED: lost}),
    "a manifest without end": Hostile("the hub sends more than the ", {MANIFEST: endless}),
    "a file more": Hostile('the manifest does not name the file "weights.pickle"', files={"weights.pickle": b"x"}),
    "a card more": Hostile('does not name the file "cards/more.png"', files={"cards/more.png": b"x"}),
    "a file less": Hostile(
        "README.md: missing", lists=lambda entries: [e for e in entries if e["path"] != "README.md"]
    ),
    "a name upwards": Hostile('"../outside" is no name', lists=listed(path="../outside")),
    "a name upwards from a folder": Hostile('"cards/../../x" is no name', lists=listed(path="cards/../../x")),
    "an absolute name": Hostile('"/etc/passwd" is no name', lists=listed(path="/etc/passwd")),
    "a name with a backslash": Hostile("is no name", lists=listed(path="..\\outside")),
    "a name that writes to the terminal": Hostile(r'"\u001b[2J\n" is no name', lists=listed(path="\x1b[2J\n")),
    "a name that is a number": Hostile("only plain files", lists=listed(path=7)),
    "a folder in a folder": Hostile('"cards/more/a.png" is no name', lists=listed(path="cards/more/a.png")),
    "a link": Hostile('lists "README.md" as "symlink": only plain', lists=relisted("README.md", type="symlink")),
    "a module of git": Hostile('as "commit": only plain files', lists=listed(type="commit")),
    "a kind that is a number": Hostile("only plain files", lists=listed(type=7)),
    "a terabyte": Hostile(f"more than the {LARGEST_TOTAL} that are read", lists=relisted(WEIGHTS, size=1 << 40)),
    "a terabyte of manifest": Hostile("more than the 1048576", lists=relisted("manifest.json", size=1 << 21)),
    "a size below nothing": Hostile("gives its size as -1", lists=relisted(WEIGHTS, size=-1)),
    "a size in words": Hostile('gives its size as "7"', lists=relisted(WEIGHTS, size="7")),
    "no size": Hostile("gives its size as null", lists=relisted(WEIGHTS, size=None)),
    "another size": Hostile("listed", lists=relisted(WEIGHTS, size=7)),
    "another hash": Hostile("README.md: damaged: not the bytes of the manifest's", files={"README.md": None}),
    "another kind": Hostile("its format is", files={"manifest.json": format_manifest({}, "cooptions team 1")}),
    "a manifest of nothing": Hostile("does not name the file", files={"manifest.json": format_manifest({}, FORMAT)}),
    "a manifest that nests": Hostile("nests too deeply", files={"manifest.json": b"[" * 100_000}),
    "a manifest that is a list": Hostile("must hold a JSON object", files={"manifest.json": b"[]"}),
    "a pointer of LFS": Hostile("damaged", files={"option_set.json": b"version https://git-lfs.github.com/spec/v1"}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_hubs_are_refused_in_a_second_with_the_reason(name, hub, shared, tiny_env, monkeypatch):
    case = HOSTILE[name]
    monkeypatch.setattr(hub_requests, "PATIENCE", case.patience)
    hub.quirks = case.quirks or {}
    hub.lists = case.lists or hub.lists
    for path, content in (case.files or {}).items():
        old = shared.files.get(path, b"")
        shared.files[path] = bytes(len(old)) if content is None else content
    assert case.reason in refused(tiny_env)


def test_the_undamaged_case_is_accepted(hub, shared, tiny_env, tiny_set):
    """Otherwise a check that refuses everything would pass."""
    hub.lists = listed(path=".gitattributes")
    assert eqx.tree_equal(load_option_set(NAME, tiny_env), tiny_set)
    hub.lists = listed(path=".cache/huggingface/x", size=1 << 40)
    assert eqx.tree_equal(load_option_set(NAME, tiny_env), tiny_set)


def test_sizes_are_checked_before_the_download(hub, shared, tiny_env):
    hub.lists = relisted(WEIGHTS, size=1 << 40)
    refused(tiny_env)
    assert downloads(hub) == []


def test_the_token_stays_with_the_hub(hub, shared, tiny_env):
    """A file may be stored on another server, which must not receive the token."""
    seen = []

    def elsewhere(answer):
        seen.append(answer.headers.get("Authorization"))
        answer.send(shared.files[WEIGHTS])

    def redirect(answer):
        answer.send(b"", 302, Location=f"{hub.address.replace('127.0.0.1', 'localhost')}/elsewhere")

    hub.quirks = {"/elsewhere": elsewhere, f"resolve/.*/{WEIGHTS}": redirect}
    load_option_set(NAME, tiny_env)
    assert seen == [None]


def test_every_flipped_bit_of_a_download_is_refused(hub, shared, tiny_env, tiny_set):
    """A hundred bits of the hub's files, at least one per file. The card is sealed like the other files."""
    rng = np.random.default_rng(0)
    names = [name for name in shared.files if name != ".gitattributes"]
    sizes = np.array([len(shared.files[name]) for name in names])
    chosen = [*range(len(names)), *rng.choice(len(names), 100 - len(names), p=sizes / sizes.sum())]
    whole, num_refused = dict(shared.files), 0
    for index in chosen:
        name, bit = names[index], rng.integers(0, 8 * sizes[index])
        flipped = bytearray(whole[name])
        flipped[bit // 8] ^= 1 << (bit % 8)
        shared.files[name] = bytes(flipped)
        with pytest.raises(ArtifactError, match=NAME):
            read_hub(HubName.parse(NAME), kind=FORMAT)
        num_refused += 1
        shared.files[name] = whole[name]
    assert num_refused == 100
    assert eqx.tree_equal(load_option_set(NAME, tiny_env), tiny_set)


def test_a_resealed_set_on_the_hub_is_checked_like_one_on_the_disk(hub, shared, files, tiny_env):
    told = json.loads(files["option_set.json"])
    told["options"][0]["threshold"] = 3
    changed = {**files, "option_set.json": json.dumps(told).encode()}
    hub.add("someone/options", {**changed, "manifest.json": format_manifest(changed, FORMAT)})
    assert "threshold must be 1 to 2, not 3" in refused(tiny_env)
    more = {**files, "run.sh": b"rm"}
    hub.add("someone/options", {**more, "manifest.json": format_manifest(more, FORMAT)})
    assert "run.sh: no file of an option set" in refused(tiny_env)
