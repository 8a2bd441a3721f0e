"""The server: what it answers, what it refuses, and that nothing brings it down."""

import json
import random
import string

import numpy as np
import pytest
from playground_scenes import FORAGING, GRID, KITCHEN
from starlette.testclient import TestClient

from cooptions.errors import ConfigError
from cooptions.playground.command import _listen
from cooptions.playground.server import make_app

TOKEN = "a-token"
STATES = [[0, 1], [5, 2]]


@pytest.fixture(scope="module")
def client(library):
    with TestClient(make_app(library, TOKEN), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def ask(client):
    def ask(question, **fields):
        return client.post(f"/{TOKEN}/api/{question}", json=fields)

    return ask


def test_the_page_and_its_files_are_served(client):
    page = client.get(f"/{TOKEN}/")
    assert page.status_code == 200
    assert "<title>cooptions playground</title>" in page.text
    policy = page.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "set-cookie" not in page.headers
    for name, kind in (("main.js", "text/javascript"), ("style.css", "text/css"), ("icon.svg", "image/svg+xml")):
        assert client.get(f"/{TOKEN}/{name}").headers["content-type"].startswith(kind)


def test_nothing_of_the_page_comes_from_elsewhere(client):
    for name in ("", "style.css", "main.js", "board.js", "charts.js"):
        text = client.get(f"/{TOKEN}/{name}").text.replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text
        assert "https:" not in text


def test_scenes_are_listed_and_described(ask):
    listed = ask("subjects").json()
    assert [each["scenario"] for each in listed] == ["lbf-6x6-2p-1f,time_limit=20", "grid", "kitchen"]
    told = ask("scene", subject=FORAGING).json()
    assert told["learned"]
    assert [option["name"] for option in told["options"]] == ["+e1", "-e1", "+e2", "-e2"]
    assert np.array(told["board"]["walls"]).shape == (6, 6)
    assert not told["shares_cells"]


def test_a_look_has_a_map_for_each_eigenfunction(ask, grid_scene):
    answer = ask("look", subject=GRID, agent=1, states=STATES).json()
    assert np.array(answer["maps"]).shape == (2, 6, 6)
    np.testing.assert_allclose(
        answer["values"], grid_scene.lens.found(np.array(STATES, np.float32)), rtol=1e-3, atol=1e-4
    )


def test_options_and_episodes_are_played(ask):
    start = ask("start", subject=FORAGING, seed=4).json()
    track = ask("play", subject=FORAGING, option=1, seed=4, states=start["states"]).json()
    assert track["steps"][0]["states"] == start["states"]
    assert track["scenery"]["apples"][0] == start["scenery"]["apples"][0]
    assert ask("episode", subject=FORAGING, seed=4).json()["steps"]


@pytest.mark.parametrize("path", ["/", "/wrong/", "/a-toke/api/subjects", "/%F0%9F/", "/../etc/passwd", "//"])
def test_without_the_token_there_is_nothing(client, path):
    for method in ("get", "post", "delete"):
        answer = getattr(client, method)(path)
        assert answer.status_code == 403
        assert "token" in answer.json()["error"]


@pytest.mark.parametrize(
    "path", ["secret.py", "..%2fserver.py", "%2e%2e/server.py", "../server.py", "static/main.js", "main.js%00", "a/b/c"]
)
def test_no_other_file_is_served(client, path):
    answer = client.get(f"/{TOKEN}/{path}")
    assert answer.status_code in (403, 404)
    assert len(answer.json()["error"].splitlines()) == 1


LOOK = {"subject": GRID, "agent": 0, "states": STATES}
PLAY = {"subject": GRID, "option": 0, "seed": 0, "states": STATES}


@pytest.mark.parametrize(
    ("question", "fields", "message"),
    [
        ("look", LOOK | {"subject": 9}, "subject must be a whole number from 0 to 2"),
        ("look", LOOK | {"agent": 2}, "agent must be a whole number from 0 to 1"),
        ("look", LOOK | {"agent": True}, "agent must be a whole number from 0 to 1"),
        ("look", LOOK | {"agent": "0"}, "agent must be a whole number from 0 to 1"),
        ("look", LOOK | {"states": STATES[:1]}, "states must be 2 lists of 2 numbers"),
        ("look", LOOK | {"states": [[0, "1"], [5, 2]]}, "states must be 2 lists of 2 numbers"),
        ("look", LOOK | {"states": [[0, 6], [5, 2]]}, "agent 1: y must be a whole number from 0 to 5, not 6"),
        ("look", LOOK | {"states": [[-1, 0], [5, 2]]}, "agent 1: x must be a whole number"),
        ("look", LOOK | {"states": [[0, 10**400], [5, 2]]}, "states must be 2 lists of 2 numbers"),
        ("look", LOOK | {"more": 1}, "unknown field 'more'"),
        ("look", {"subject": GRID}, "agent is missing"),
        ("play", PLAY | {"option": 4}, "option must be a whole number from 0 to 3"),
        ("play", PLAY | {"option": "+e1"}, "option must be a whole number from 0 to 3"),
        ("play", PLAY | {"seed": -1}, "seed must be a whole number"),
        ("episode", {"subject": GRID, "seed": 0}, "nothing was learned in this run"),
        ("look", {"subject": KITCHEN, "agent": 0, "states": [[0, 0, 0, 0], [3, 1, 0, 0]]}, "is no floor"),
        ("play", {"subject": KITCHEN, "option": 0, "seed": 0, "states": [[1, 1, 0, 0]] * 2}, "stand on one cell"),
    ],
)
def test_a_wrong_field_is_named(ask, question, fields, message, caplog):
    answer = ask(question, **fields)
    assert answer.status_code == 400
    assert message in answer.json()["error"]
    assert len(answer.json()["error"].splitlines()) == 1
    assert message in caplog.text
    assert TOKEN not in caplog.text


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b"\xff", 400),
        (b'{"subject": NaN}', 400),
        (b"[" * 60_000, 400),
        (b'{"subject": ' + b"9" * 9000 + b"}", 400),
        (b" " * 70_000, 413),
    ],
)
def test_a_wrong_body_is_refused(client, body, status):
    answer = client.post(f"/{TOKEN}/api/look", content=body)
    assert answer.status_code == status
    assert answer.json()["error"]


def test_unknown_questions_and_methods_are_refused(client, ask):
    assert ask("shutdown").status_code == 404
    assert client.get(f"/{TOKEN}/api/subjects").status_code == 404
    assert client.put(f"/{TOKEN}/main.js").status_code == 404


def anything(rng, depth=0):
    """A random JSON value."""
    kinds = [
        lambda: rng.randint(-3, 9),
        lambda: rng.uniform(-1e9, 1e9),
        lambda: rng.choice([None, True, False, "", "0", -0.0, 1e308, 2**70]),
        lambda: "".join(rng.choices(string.printable + "é☃", k=rng.randint(0, 20))),
    ]
    if depth < 4:
        kinds.append(lambda: [anything(rng, depth + 1) for _ in range(rng.randint(0, 4))])
        kinds.append(lambda: {str(anything(rng, 9)): anything(rng, depth + 1) for _ in range(rng.randint(0, 3))})
    return rng.choice(kinds)()


def spoiled(rng):
    """A request that is nearly right: one part of it is not."""
    question = rng.choice(["look", "play", "start", "scene", "episode"])
    right = {"look": LOOK, "play": PLAY, "start": {"subject": 1, "seed": 0}, "scene": {"subject": 1}}
    fields = json.loads(json.dumps(right.get(question, {"subject": 1, "seed": 0})))
    name = rng.choice([*fields, "extra"])
    if name == "states" and rng.random() < 0.7:
        fields["states"][rng.randrange(2)][rng.randrange(2)] = anything(rng)
    else:
        fields[name] = anything(rng)
    body = json.dumps(fields).encode()
    if rng.random() < 0.2:
        at = rng.randrange(len(body))
        body = body[:at] + bytes([rng.randrange(256)]) + body[at + rng.randint(0, 2) :]
    return question, body


@pytest.mark.parametrize("host", ["nonsense..", "no-such-host.invalid"])
def test_a_host_that_is_none_is_refused_by_its_flag(host):
    with pytest.raises(ConfigError, match="play: cannot listen at .*; give another --host"):
        _listen(host, 0)


def test_a_thousand_malformed_requests_do_not_bring_it_down(client, ask):
    rng = random.Random(0)
    answers = []
    for _ in range(1000):
        if rng.random() < 0.15:
            path = "".join(rng.choices(string.ascii_letters + "/.%-_", k=rng.randint(1, 30)))
            answers.append(client.get(f"/{rng.choice([TOKEN, 'x'])}/a{path}"))
        else:
            question, body = spoiled(rng)
            answers.append(client.post(f"/{TOKEN}/api/{question}", content=body))
    statuses = {answer.status_code for answer in answers}
    assert statuses <= {200, 400, 403, 404, 405}
    refused = [answer for answer in answers if answer.status_code != 200]
    assert len(refused) > 800
    assert all(len(answer.json()["error"].splitlines()) == 1 for answer in refused)
    assert ask("look", **LOOK).status_code == 200


def test_a_failure_within_is_told_and_the_server_goes_on(client, ask, grid_scene, monkeypatch, caplog):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(type(grid_scene), "look", fail)
    assert ask("look", **LOOK).status_code == 500
    assert "ZeroDivisionError" in caplog.text
    monkeypatch.undo()
    assert ask("look", **LOOK).status_code == 200
