"""Option sets are loaded as they were saved, and anything else is refused."""

import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxmarl.environments.mpe import SimpleSpreadMPE
from safetensors.numpy import load, save

from cooptions.envs.adapters.jaxmarl import FromJaxMARL
from cooptions.envs.grid import Grid
from cooptions.envs.lbf import Foraging
from cooptions.envs.scenarios import make_env
from cooptions.envs.subteam import SubteamEnv
from cooptions.errors import ArtifactError
from cooptions.options.macro import MacroConfig
from cooptions.options.sharing.fingerprints import fingerprint
from cooptions.options.sharing.sealed import LARGEST_TOTAL, canonical_json
from cooptions.options.sharing.storage import FORMAT, find_option_set, load_option_set, load_reports, save_option_set
from cooptions.options.train import eigenoptions
from cooptions.runs.directory import provenance
from cooptions.types import Feature

MADE = {"command": "cooptions options", "versions": {"jax": "1"}, "commit": "abc"}
PICTURES = {"e1-plus.png": bytes(range(256)), "e1-minus.png": b"\x89PNG"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory, tiny_env, tiny_set, tiny_reports):
    path = tmp_path_factory.mktemp("sets") / "tiny"
    save_option_set(path, tiny_set, tiny_env, tiny_reports, provenance=MADE, pictures=PICTURES, scenario="grid-5x5-2p")
    return path


@pytest.fixture
def copy(saved, tmp_path):
    """A copy to damage."""
    return shutil.copytree(saved, tmp_path / "copy")


def files_of(path):
    return {str(file.relative_to(path)): file for file in sorted(path.rglob("*")) if file.is_file()}


def reseal(path, **changes):
    """Write a manifest that matches the directory, like an attacker."""
    names = [name for name in files_of(path) if name != "manifest.json"]
    contents = {name: (path / name).read_bytes() for name in names}
    listed = {name: {"sha256": _sha(content), "size": len(content)} for name, content in contents.items()}
    value = {"files": listed, "format": FORMAT} | changes
    (path / "manifest.json").write_bytes(canonical_json(value | {"sha256": _sha(canonical_json(value))}))


def _sha(content):
    return hashlib.sha256(content).hexdigest()


def rewrite(path, change):
    """Change the description, and the manifest with it."""
    file = path / "option_set.json"
    value = json.loads(file.read_text())
    change(value)
    file.write_text(json.dumps(value))
    reseal(path)


def retensor(path, change):
    """Change the weights, and the manifest with them."""
    file = path / "policies.safetensors"
    arrays = {name: array.copy() for name, array in load(file.read_bytes()).items()}
    change(arrays)
    file.write_bytes(save(arrays))
    reseal(path)


def rehead(path, change):
    """Change the header of the weights' file, and the manifest with it."""
    file = path / "policies.safetensors"
    content = file.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    change(header)
    encoded = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(encoded)) + encoded + content[8 + length :])
    reseal(path)


def refused(path, env):
    """The one-line error with which a set is refused within a second."""
    begun = time.process_time()  # processor time of this process, so that the machine's load does not matter
    with pytest.raises(ArtifactError) as caught:
        load_option_set(path, env)
    assert time.process_time() - begun < 1
    message = str(caught.value)
    assert message.isprintable()
    assert str(path) in message
    return message


def test_round_trip(saved, tiny_env, tiny_set, tiny_reports):
    assert eqx.tree_equal(load_option_set(saved, tiny_env), tiny_set)
    assert load_reports(str(saved)) == tiny_reports
    assert set(files_of(saved)) == {
        "README.md",
        "cards/e1-minus.png",
        "cards/e1-plus.png",
        "manifest.json",
        "option_set.json",
        "policies.safetensors",
    }
    assert [path.name for path in saved.parent.iterdir()] == ["tiny"]
    assert json.loads((saved / "option_set.json").read_text())["provenance"] == MADE


@pytest.mark.parametrize(
    "settings", [{"fixed_last": False}, {"still_ends": False}, {"shared": True}, {"sight": "relation"}]
)
def test_other_settings_round_trip(settings, make_set, tiny_env, tmp_path):
    options = make_set(**settings)
    save_option_set(tmp_path / "set", options, tiny_env, (), provenance=provenance())
    assert eqx.tree_equal(load_option_set(tmp_path / "set", tiny_env), options)
    assert load_reports(tmp_path / "set") == ()


ACT = """
import sys
import jax, numpy as np
from cooptions.envs.scenarios import make_env
from cooptions.options.sharing.storage import load_option_set
options = load_option_set(sys.argv[1], make_env("grid-5x5-2p"))
given = np.load(sys.argv[2])
np.save(sys.argv[3], jax.jit(jax.vmap(options.actions))(given["states"], given["seen"], given["mask"]))
"""


def test_greedy_actions_are_the_same_in_a_fresh_process(saved, tiny_set, tmp_path):
    rng = np.random.default_rng(0)
    mask = rng.random((10_000, 2, 5)) < 0.8
    mask[..., 0] = True
    given = {
        "states": rng.integers(0, 5, (10_000, 2, 2)).astype(np.float32),
        "seen": rng.normal(size=(10_000, 2, 4)).astype(np.float32),
        "mask": mask,
    }
    np.savez(tmp_path / "given.npz", **given)
    words = [sys.executable, "-c", ACT, saved, tmp_path / "given.npz", tmp_path / "actions.npy"]
    subprocess.run(list(map(str, words)), check=True)
    expected = jax.jit(jax.vmap(tiny_set.actions))(*map(jnp.asarray, given.values()))
    assert np.array_equal(np.load(tmp_path / "actions.npy"), expected)
    assert set(np.unique(expected)) == {1, 2, 3, 4, 5}  # every move and "terminate" occur


def test_every_flipped_bit_is_refused(copy, tiny_env):
    rng = np.random.default_rng(0)
    contents = {file: file.read_bytes() for file in files_of(copy).values()}
    files = list(contents)
    sizes = np.array([len(content) for content in contents.values()])
    chosen = [*range(len(files)), *rng.choice(len(files), 200 - len(files), p=sizes / sizes.sum())]
    num_refused = 0
    for index in chosen:
        file, bit = files[index], rng.integers(0, 8 * sizes[index])
        flipped = bytearray(contents[file])
        flipped[bit // 8] ^= 1 << (bit % 8)
        file.write_bytes(flipped)
        num_refused += file.name in refused(copy, tiny_env)
        file.write_bytes(contents[file])
    assert num_refused == 200
    load_option_set(copy, tiny_env)


def _write(name, content):
    def damage(path):
        (path / name).write_bytes(content)

    return damage


def _resealed(name, content):
    def damage(path):
        (path / name).write_bytes(content)
        reseal(path)

    return damage


def _replaced(make):
    """Replace README.md with something else."""

    def damage(path):
        shutil.move(path / "README.md", path.parent / "README.md")
        make(path / "README.md", path.parent / "README.md")

    return damage


def _linked_folder(path):
    shutil.move(path / "cards", path.parent / "cards")
    (path / "cards").symlink_to(path.parent / "cards")


def _nested_folder(path):
    (path / "cards" / "more").mkdir()
    (path / "cards" / "more" / "a.png").write_bytes(b"")
    reseal(path)


def _listed(name):
    """A manifest with a malicious file name."""

    def damage(path):
        (path.parent / "outside").write_bytes(b"x")
        entry = {"sha256": _sha(b"x"), "size": 1}
        listed = json.loads((path / "manifest.json").read_text())["files"]
        reseal(path, files=listed | {name: entry})

    return damage


def _entry(**changes):
    """A manifest with an invalid entry for the card."""

    def damage(path):
        listed = json.loads((path / "manifest.json").read_text())["files"]
        reseal(path, files=listed | {"README.md": listed["README.md"] | changes})

    return damage


def _sparse(name, size, honest):
    """A sparse file of huge size."""

    def damage(path):
        listed = json.loads((path / "manifest.json").read_text())["files"]
        with open(path / name, "wb") as file:
            file.truncate(size)
        if honest:
            reseal_as = listed | {name: {"sha256": _sha(b""), "size": size}}
            (path / name).rename(path.parent / "huge")
            reseal(path, files=reseal_as)
            (path.parent / "huge").rename(path / name)

    return damage


def _many(path):
    for index in range(3000):
        (path / "cards" / f"{index}.png").touch()


def _manifest_text(change):
    def damage(path):
        file = path / "manifest.json"
        file.write_text(change(file.read_text()))

    return damage


def _deep(text):
    return text.replace('"commit": "abc"', '"commit": ' + "[" * 900 + "]" * 900)


def _describe(*keys, value):
    """A description with one value changed."""

    def damage(path):
        def change(whole):
            for key in keys[:-1]:
                whole = whole[key]
            whole[keys[-1]] = value

        rewrite(path, change)

    return damage


def _without(key):
    return lambda path: rewrite(path, lambda value: value.pop(key))


def _raw(old, new):
    """A description with a piece of text changed."""

    def damage(path):
        file = path / "option_set.json"
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new, 1))
        reseal(path)

    return damage


def _weights(name, change):
    return lambda path: retensor(path, lambda arrays: arrays.update({name: change(arrays[name])}))


def _spoilt(value):
    def spoil(array):
        array.flat[7] = value
        return array

    return spoil


def _header(name, **changes):
    return lambda path: rehead(path, lambda header: header[name].update(changes))


def _tensor_file(head, rest=b""):
    return _resealed("policies.safetensors", head + rest)


WEIGHT = "body.weights.0"
HOSTILE = {
    "a byte more": (_write("README.md", b"# other"), "README.md: damaged"),
    "another file of the same size": (_write("cards/e1-minus.png", b"\x89PNF"), "e1-minus.png: damaged"),
    "longer than listed": (_write("cards/e1-minus.png", bytes(5)), "5 bytes, more than the 4"),
    "missing file": (lambda path: (path / "README.md").unlink(), "README.md: missing"),
    "missing card": (lambda path: (path / "cards/e1-plus.png").unlink(), "e1-plus.png: missing"),
    "missing manifest": (lambda path: (path / "manifest.json").unlink(), "manifest.json: cannot be read"),
    "missing directory": (shutil.rmtree, "No such file"),
    "extra file": (_write("weights.pickle", b"x"), '"weights.pickle"; remove it'),
    "extra card": (_write("cards/more.png", b"x"), '"cards/more.png"; remove it'),
    "extra name that writes to the terminal": (_write("\x1b[2J\n", b"x"), r'"\u001b[2J\n"; remove it'),
    "extra file in the manifest": (_resealed("weights.pickle", b"x"), "weights.pickle: no file of an option set"),
    "too many files": (_many, "more than 2000 files"),
    "link": (_replaced(lambda name, there: name.symlink_to(there)), '"README.md" is a link'),
    "link to a folder": (_linked_folder, '"cards" is a link'),
    "folder in a folder": (_nested_folder, '"cards/more" is a folder in a folder'),
    "pipe": (_replaced(lambda name, there: os.mkfifo(name)), "README.md: not a plain file"),
    "name upwards": (_listed("../outside"), '"../outside" is no name'),
    "name upwards from a folder": (_listed("cards/../../outside"), '"cards/../../outside" is no name'),
    "absolute name": (_listed("/etc/passwd"), '"/etc/passwd" is no name'),
    "name with a backslash": (_listed("..\\outside"), "is no name"),
    "hidden name": (_listed("cards/.hidden"), "is no name"),
    "manifest that names itself": (_listed("manifest.json"), "is no name"),
    "sizes that are text": (_entry(size="7"), "needs a sha256 and a size"),
    "negative size": (_entry(size=-1), "needs a sha256 and a size"),
    "hash that is a number": (_entry(sha256=7), "needs a sha256 and a size"),
    "terabyte, as listed": (_sparse("policies.safetensors", 1 << 40, True), f"more than the {LARGEST_TOTAL}"),
    "terabyte, not as listed": (_sparse("policies.safetensors", 1 << 40, False), "policies.safetensors: damaged"),
    "terabyte of manifest": (_sparse("manifest.json", 1 << 40, False), "manifest.json: damaged"),
    "manifest that is no JSON": (_write("manifest.json", b"\xff{"), "manifest.json: not JSON"),
    "manifest that is a list": (_write("manifest.json", b"[]"), "must hold a JSON object"),
    "manifest that nests": (_write("manifest.json", b"[" * 400_000), "nests too deeply"),
    "manifest with a space more": (_manifest_text(lambda text: text + " "), "manifest.json: damaged"),
    "manifest with a name twice": (_manifest_text(lambda text: "{" + f'"format": "{FORMAT}",' + text[1:]), "damaged"),
    "manifest with an infinite number": (
        _manifest_text(lambda text: text.replace('"size": ', '"size": 1e999,"a": ', 1)),
        "1e999 is no finite",
    ),
    "manifest without files": (lambda path: reseal(path, files=[]), "must hold format, files and sha256"),
    "manifest with more": (lambda path: reseal(path, more=1), "must hold format, files and sha256"),
    "manifest of nothing": (lambda path: reseal(path, files={}), "the manifest does not name"),
    "later version": (lambda path: reseal(path, format="cooptions option set 3"), f'reads "{FORMAT}"'),
    "earlier version": (lambda path: reseal(path, format="cooptions option set 1"), f'reads "{FORMAT}"'),
    "description that is no JSON": (_resealed("option_set.json", b"{'a': 1}"), "option_set.json: not JSON"),
    "description that nests": (_resealed("option_set.json", b'{"a":' * 200_000), "nests too deeply"),
    "description that nests where anything goes": (_raw('"abc"', "[" * 900 + "]" * 900), "nests deeper than 16"),
    "description of absurd size": (_resealed("option_set.json", b" " * (1 << 22)), "more than the 2097152"),
    "number of a million digits": (_raw('"max_steps": 12', '"max_steps": ' + "9" * 10**6), "not JSON"),
    "number of 400 digits": (_raw('"epsilon": 0.05', '"epsilon": ' + "9" * 400), "description.epsilon must be a float"),
    "NaN for a number": (_raw('"epsilon": 0.05', '"epsilon": NaN'), "NaN is no finite number"),
    "infinite number": (_raw('"epsilon": 0.05', '"epsilon": 1e999'), "1e999 is no finite number"),
    "missing field": (_without("fixed_last"), "description must have the fields"),
    "unknown field": (_describe("more", value=1), "description must have the fields"),
    "options that are text": (_describe("options", value="all"), "description.options must be a list"),
    "no options": (_describe("options", value=[]), "options must not be empty"),
    "threshold that is text": (_describe("options", 0, "threshold", value="2"), "options[0].threshold must be a int"),
    "threshold that is true": (_describe("options", 0, "threshold", value=True), "options[0].threshold must be a int"),
    "threshold above the members": (_describe("options", 0, "threshold", value=3), "threshold must be 1 to 2, not 3"),
    "threshold of nobody": (_describe("options", 0, "threshold", value=0), "threshold must be 1 to 2, not 0"),
    "no members": (_describe("options", 0, "members", value=[False, False]), "members must not be empty"),
    "members that are numbers": (_describe("options", 0, "members", value=[1, 1]), "members[0] must be a bool"),
    "members of a larger team": (_describe("options", 0, "members", value=[True] * 3), "3 members of 2 agents"),
    "two options of one name": (_describe("options", 0, "name", value="-e1"), "two have the same name"),
    "name with control characters": (_describe("options", 0, "name", value="\x1b[2J"), r'not "\u001b[2J"'),
    "name of no letters": (_describe("options", 0, "name", value=""), "is no name"),
    "unknown sign": (_describe("options", 0, "sign", value=2), "sign must be -1, 0 or 1"),
    "negative eigenfunction": (_describe("options", 0, "eigenfunction", value=-1), "must not be negative"),
    "no steps": (_describe("max_steps", value=0), "max_steps must be 1 to"),
    "steps without end": (_describe("max_steps", value=10**12), "max_steps must be 1 to"),
    "epsilon above 1": (_describe("epsilon", value=2), "epsilon must lie in [0, 1]"),
    "reports of other options": (_describe("reports", 0, "name", value="x"), "reports must be one for each option"),
    "report without a number": (_describe("reports", 0, "mean_length", value=None), "mean_length must be a float"),
    "report with two quartiles": (_describe("reports", 0, "length_quartiles", value=[1, 2]), "must be a list of 3"),
    "unknown sight": (_describe("sight", value="smell"), "sight must be one of relation, observation, not 'smell'"),
    "sight of the other kind": (_describe("sight", value="relation"), "made for another environment: ground"),
    "no actions": (_describe("actions", value=[]), "actions must be 1 to 127 different names"),
    "an action twice": (_describe("actions", value=["stay", "stay"]), "actions must be 1 to 127 different names"),
    "actions of another order": (
        _describe("actions", value=["stay", "x+1", "x-1", "y-1", "y+1"]),
        "made for other actions",
    ),
    "an action too few": (_describe("actions", value=["stay", "x-1", "x+1", "y-1"]), "expected F32 [4, 2, 8, 4]"),
    "action with control characters": (_describe("actions", 0, value="\x1b[2J"), "actions[0] must be a str"),
    "recurrent network": (_describe("network", "recurrent", value=True), "options have no memory"),
    "network without layers": (_describe("network", "hidden", value=[]), "network.hidden needs at least 1"),
    "network with a million layers": (_describe("network", "hidden", value=[1] * 10**6), "more than the 2097152"),
    "network with many layers": (_describe("network", "hidden", value=[1] * 1000), "at most 16 layers"),
    "network of absurd width": (
        _describe("network", "hidden", value=[10**9, 8]),
        "must be at most 65536",
    ),
    "network of great width": (_describe("network", "hidden", value=[1 << 16] * 16), '"body.biases.10" is missing'),
    "network of negative width": (
        _describe("network", "hidden", value=[-8, 8]),
        "must be at least 1, not -8",
    ),
    "network of other width": (_describe("network", "hidden", value=[8, 9]), "expected F32 [4, 2, 8, 9]"),
    "network that is shared": (_describe("network", "shared", value=True), "expected F32 [4, 4, 8]"),
    "terminate learned": (_describe("fixed_last", value=False), "expected F32 [4, 2, 8, 6]"),
    "an option too few": (
        lambda path: rewrite(path, lambda v: (v["options"].pop(), v["reports"].pop())),
        "expected F32 [3, 2",
    ),
    "NaN weight": (_weights(WEIGHT, _spoilt(np.nan)), f"{WEIGHT} is not finite"),
    "infinite weight": (_weights("head.biases.0", _spoilt(-np.inf)), "head.biases.0 is not finite"),
    "weights of double precision": (_weights(WEIGHT, lambda array: array.astype(np.float64)), "is F64"),
    "weights of half precision": (_weights(WEIGHT, lambda array: array.astype(np.float16)), "is F16"),
    "weights that are whole numbers": (_weights(WEIGHT, lambda array: array.view(np.int32)), "is I32"),
    "transposed weights": (_weights(WEIGHT, lambda array: array.swapaxes(2, 3).copy()), "is F32 [4, 2, 8, 4]"),
    "weights of one option": (_weights(WEIGHT, lambda array: array[:1]), "is F32 [1, 2, 4, 8]"),
    "missing weights": (lambda path: retensor(path, lambda arrays: arrays.pop(WEIGHT)), f'"{WEIGHT}" is missing'),
    "unknown weights": (
        lambda path: retensor(path, lambda arrays: arrays.update(more=np.zeros(3, np.float32))),
        '"more" is not of the described network',
    ),
    "empty weights": (_tensor_file(b""), "not a safetensors file"),
    "cut weights": (_tensor_file(struct.pack("<Q", 8), b"{}"), "not a safetensors file"),
    "header of absurd length": (_tensor_file(struct.pack("<Q", (1 << 64) - 1), b"{}"), "not a safetensors file"),
    "header of 100 MB": (_tensor_file(struct.pack("<Q", 100_000_000), b"{}"), "not a safetensors file"),
    "header that is no JSON": (_tensor_file(struct.pack("<Q", 8), b"\xff\xfe{{{{{{"), "not a safetensors file"),
    "header that nests": (_tensor_file(struct.pack("<Q", 200_000), b"[" * 200_000), "not a safetensors file"),
    "header with overlapping weights": (_header(WEIGHT, data_offsets=[0, 1024]), "not a safetensors file"),
    "header with weights outside": (_header(WEIGHT, data_offsets=[1 << 40, (1 << 40) + 1024]), "not a safetensors"),
    "header with weights backwards": (_header(WEIGHT, data_offsets=[1024, 0]), "not a safetensors file"),
    "header with a huge shape": (_header(WEIGHT, shape=[1 << 40, 1 << 40]), "not a safetensors file"),
    "header with an unknown type": (_header(WEIGHT, dtype="PICKLE"), "not a safetensors file"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_sets_are_refused_in_a_second_with_the_reason(name, copy, tiny_env):
    damage, reason = HOSTILE[name]
    damage(copy)
    assert reason in refused(copy, tiny_env)


def test_the_undamaged_case_is_accepted(copy, tiny_env, tiny_set):
    """Otherwise a check that refuses everything would pass."""
    rewrite(copy, lambda value: None)
    retensor(copy, lambda arrays: None)
    rehead(copy, lambda header: None)
    assert eqx.tree_equal(load_option_set(copy, tiny_env), tiny_set)


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [
        ("grid-5x5-2p,time_limit=50", "time_limit is 100 there, 50 here"),
        ("grid-5x5-2p,types=12", 'types is "" there, "12" here'),
        ("grid-5x6-2p", "width is 5 there, 6 here; features[1].size is 5 there, 6 here"),
        ("grid-5x5-3p", "num_agents is 2 there, 3 here"),
        ("grid-5x5-3p", "observation.shape is [2, 4] there, [3, 6] here"),
        ("probe-constant", 'class is "Grid" there'),
    ],
)
def test_another_environment_is_refused_with_the_difference(scenario, reason, saved):
    env = make_env(scenario)
    assert reason in refused(saved, env)


ROOMY = "grid-7x7-2p"


@pytest.fixture(scope="module")
def travelling(tmp_path_factory, make_set):
    """A set with relation sight for two agents in an empty grid."""
    env = make_env(ROOMY)
    path = tmp_path_factory.mktemp("sets") / "relations"
    save_option_set(path, make_set(sight="relation", env=env), env, (), provenance=MADE, scenario=ROOMY)
    return path


@pytest.mark.parametrize(
    "scenario", [ROOMY, f"{ROOMY},task=meet", f"{ROOMY},time_limit=9", f"{ROOMY},collisions=true", "lbf-7x7-2p-1f"]
)
def test_sets_of_relations_fit_every_task_with_the_same_agents_map_and_moves(scenario, travelling):
    assert load_option_set(travelling, make_env(scenario)).options == eigenoptions(2, 2)


@pytest.mark.parametrize("scenario", ["grid-7x7-3p", "grid-7x7-8p", "grid-7x7-3p,types=122", "lbf-7x7-4p-1f"])
def test_sets_of_relations_fit_larger_teams_with_such_agents(scenario, travelling, tmp_path):
    """And are the same set again when they are saved there."""
    env = make_env(scenario)
    options = load_option_set(travelling, env)
    assert options.view.team.num_agents == 2
    save_option_set(tmp_path / "set", options, env, (), provenance=MADE)
    assert eqx.tree_equal(load_option_set(tmp_path / "set", make_env(ROOMY)).network, options.network)


def test_sets_that_see_everything_fit_the_subteams_that_they_were_trained_with(tmp_path, make_set):
    env = make_env("grid-5x5-4p")
    pairs = SubteamEnv(env, 2)
    save_option_set(tmp_path / "set", make_set(env=pairs), env, (), provenance=MADE)
    assert load_option_set(tmp_path / "set", env).view == load_option_set(tmp_path / "set", pairs).view
    with pytest.raises(ArtifactError, match="made for another environment"):
        load_option_set(tmp_path / "set", make_env("grid-5x5-2p"))


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [
        ("grid-7x7-3p,types=112", "num_agents is 2 there, 3 here"),
        ("grid-7x8-2p", "features[1].size is 7 there, 8 here; features[1].high is 6.0 there, 7.0 here"),
        ("grid-7x7-2p,map=door", 'ground is "open grid" there, "grid with walls'),
        ("grid-7x7-2p,types=12", "agent_features is [[true, true], [true, true]] there, [[true, false], [true, true]]"),
        ("probe-constant", 'features is [{"high": 6.0'),
        ("overcooked-cramped_room", 'ground is "open grid" there, "overcooked cramped_room" here'),
    ],
)
def test_sets_of_relations_are_refused_for_what_they_depend_on(scenario, reason, travelling):
    assert reason in refused(travelling, make_env(scenario))


def test_sets_of_relations_are_refused_where_an_action_is_missing(make_set, tmp_path):
    env = make_env("lbf-7x7-2p-1f")
    save_option_set(tmp_path / "set", make_set(sight="relation", env=env), env, (), provenance=MADE)
    assert '"load"] there, ["stay"' in refused(tmp_path / "set", make_env(ROOMY))


def test_without_a_ground_relation_sets_fit_only_the_same_environment(make_set, tmp_path):
    env = make_env("probe-constant")
    save_option_set(tmp_path / "set", make_set(sight="relation", env=env), env, (), provenance=MADE)
    load_option_set(tmp_path / "set", env)
    assert "class is " in refused(tmp_path / "set", make_env("probe-observed_sign"))


def test_the_set_of_a_run_is_found_unless_it_has_several(copy, tmp_path, tiny_env, tiny_set):
    run = tmp_path / "run"
    (run / "option_sets").mkdir(parents=True)
    with pytest.raises(ArtifactError, match="no option set yet"):
        load_option_set(run, tiny_env)
    shutil.copytree(copy, run / "option_sets" / "seed-0")
    assert find_option_set(run) == run / "option_sets" / "seed-0"
    assert eqx.tree_equal(load_option_set(run, tiny_env), tiny_set)
    assert load_reports(run) == load_reports(copy)
    assert MacroConfig(option_set=str(run)).files == (run / "option_sets" / "seed-0" / "manifest.json",)
    shutil.copytree(copy, run / "option_sets" / "seed-1")
    with pytest.raises(ArtifactError, match="has 2 option sets; choose one: .*seed-0, .*seed-1"):
        load_option_set(run, tiny_env)
    assert find_option_set(copy) == copy


def test_fingerprints_distinguish_environments():
    changes = {}, {"num_apples": 5}, {"sight": 3}, {"coop": "none"}, {"rules": "jumanji"}, {"knows_place": True}
    whole = [json.dumps(fingerprint(Foraging(**change))) for change in changes]
    assert len(set(whole)) == len(whole)
    assert whole[0] == json.dumps(fingerprint(make_env("lbf-15x15-4p-3f")))
    assert whole[0] == json.dumps(fingerprint(make_env("lbf-2s-15x15-4p-3f,reach=corner"))), "what applies counts"
    for part in ('"Foraging"', '"num_agents": 4', '"float32"', '"coordinate"', '"shape": [4, 6]'):
        assert part in whole[0]


def test_an_option_set_of_earlier_foraging_is_refused_with_the_rules_that_differ(copy):
    """Before there were rule sets, foraging had the public rules, and a sight of 0 meant the whole grid."""
    earlier = {
        "class": "Foraging", "grid_size": 15, "num_agents": 4, "num_apples": 3, "sight": 0, "coop": "three_lowest",
        "max_level": 2, "time_limit": 100, "num_actions": 6,
    }  # fmt: skip
    rewrite(copy, lambda value: value.update(environment=earlier))
    reason = refused(copy, make_env("lbf-15x15-4p-3f"))
    for change in ("sight is 0 there, 2 here", 'coop is "three_lowest" there, "all" here', "here; reach is null there"):
        assert change in reason


def test_fingerprints_distinguish_maps_by_content(tmp_path):
    path = tmp_path / "map.txt"

    def mark(text):
        path.write_text(text)
        return fingerprint(Grid(1, 3, 2, map=str(path)))

    assert mark("...") == mark("...") != mark("..#")


def test_fingerprints_of_wrapped_environments_are_plain_and_the_same_each_time():
    def wrapped(**inner):
        features = Feature.continuous("x", -2.0, 2.0), Feature.continuous("y", -2.0, 2.0)
        env = SimpleSpreadMPE(num_agents=2, num_landmarks=2, **inner)
        return FromJaxMARL(env, features=features, factorise=_places)

    first = fingerprint(wrapped(max_steps=6))
    assert first["factorise"] == "_places"
    assert first["env"]["class"] == "SimpleSpreadMPE"
    assert fingerprint(wrapped(max_steps=6)) == first
    assert fingerprint(wrapped(max_steps=7)) != first


def _places(state):
    return state.p_pos[:2]


def test_the_same_options_update_a_directory(copy, tiny_env, tiny_set, tiny_reports):
    save_option_set(copy, tiny_set, tiny_env, tiny_reports[:0], provenance=MADE | {"commit": "new"})
    assert load_reports(copy) == ()
    assert "new" in (copy / "README.md").read_text()
    assert not (copy / "cards").exists()


def test_other_options_replace_nothing_without_overwrite(copy, make_set, tiny_env, tiny_set):
    other = make_set(seed=1)
    with pytest.raises(ArtifactError, match="holds another option set"):
        save_option_set(copy, other, tiny_env, (), provenance=MADE)
    assert eqx.tree_equal(load_option_set(copy, tiny_env), tiny_set)
    save_option_set(copy, other, tiny_env, (), provenance=MADE, overwrite=True)
    assert eqx.tree_equal(load_option_set(copy, tiny_env), other)
    (copy / "README.md").write_text("damaged")
    with pytest.raises(ArtifactError, match="damaged.*not overwritten"):
        save_option_set(copy, other, tiny_env, (), provenance=MADE)
    save_option_set(copy, other, tiny_env, (), provenance=MADE, overwrite=True)
    load_option_set(copy, tiny_env)


def test_a_directory_of_something_else_is_never_replaced(tmp_path, tiny_env, tiny_set):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(ArtifactError, match="not overwritten"):
            save_option_set(tmp_path / "home", tiny_set, tiny_env, (), provenance=MADE, overwrite=overwrite)
    assert (tmp_path / "home" / "thesis.tex").read_text() == "years of work"


def test_an_empty_directory_is_used(tmp_path, tiny_env, tiny_set):
    save_option_set(tmp_path, tiny_set, tiny_env, (), provenance=MADE)
    load_option_set(tmp_path, tiny_env)


def test_sets_are_written_atomically(copy, make_set, tiny_env, tiny_set, monkeypatch):
    """The disk fills up at the third file, then the renaming fails."""
    calls = []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")

    def no_rename(self, target):
        if self.name.endswith(".partial"):
            raise OSError(5, "Input/output error")
        return os.rename(self, target)

    for name, broken, reason in (("os.fsync", full, "No space left"), ("pathlib.Path.rename", no_rename, "Input")):
        with monkeypatch.context() as patch:
            patch.setattr(name, broken)
            with pytest.raises(ArtifactError, match=reason):
                save_option_set(copy, make_set(seed=1), tiny_env, (), provenance=MADE, overwrite=True)
        assert [path.name for path in copy.parent.iterdir()] == [copy.name]
        assert eqx.tree_equal(load_option_set(copy, tiny_env), tiny_set)


def test_sets_that_could_not_be_loaded_are_not_saved(tmp_path, tiny_env, tiny_set, tiny_reports):
    def spoil(network):
        return jax.tree.map(lambda leaf: leaf.at[0].set(jnp.nan), network)

    bad = eqx.tree_at(lambda options: options.network, tiny_set, replace_fn=spoil)
    seeds = eqx.tree_at(
        lambda options: options.network, tiny_set, replace_fn=lambda net: jax.tree.map(lambda leaf: leaf[None], net)
    )
    for options, reason in ((bad, "not finite"), (seeds, r"expected F32 \[4, 2, ")):
        with pytest.raises(ArtifactError, match=reason):
            save_option_set(tmp_path / "set", options, tiny_env, (), provenance=MADE)
    with pytest.raises(ArtifactError, match="is no name"):
        save_option_set(tmp_path / "set", tiny_set, tiny_env, (), provenance=MADE, pictures={"../x.png": b""})
    assert list(tmp_path.iterdir()) == []
