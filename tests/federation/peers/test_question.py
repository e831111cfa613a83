"""Questions to peers: read strictly, bound to one asker, one peer and one moment, and answered within bounds."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

pytest.importorskip("zenoh", reason="needs consilience[peers]")

import consilience as cs
from consilience.base.errors import ConsilienceError
from consilience.export.folder import Facts, export_agent, load_model
from consilience.federation.membership import write_site
from consilience.federation.peers import keys
from consilience.federation.peers.audit import broken_at, read_audit
from consilience.federation.peers.question import REFUSALS, QuestionError, Questions, refusal, refusal_from
from consilience.federation.peers.untrusted_input import InvalidInput
from consilience.federation.remote_prediction_server import QuestionHandler, site_model
from consilience.federation.site import load_site, read_site

X = np.random.default_rng(0).normal(3, 2, (12, 2)).astype(np.float32)


class Bench:
    """Site a, which answers, and its peers, who ask."""

    def __init__(self, path: Path, **changes: Any) -> None:
        write_site(path, replace(read_site(path), **changes))
        self.prepared = load_site(path)
        self.agent = cs.SklearnAgent(LogisticRegression(), X, np.arange(12) % 2, "a")
        self.agent.train(X, None, 0.0)
        training = {"federation": self.prepared.federation.identity().hex(), "round": 4}
        export_agent(self.agent, self.prepared.model, X, Facts(training=training), overwrite=True)
        self.questions = Questions(self.prepared.federation, self.prepared.shared)
        self.signing = {
            name: keys.read_signing_key(path.parent.parent / name / "keys" / "signing.key") for name in "abc"
        }
        self.log = self.prepared.out / "answered.jsonl"
        self.said: list[str] = []

    def desk(self) -> QuestionHandler:
        return QuestionHandler(self.prepared, load_model(self.prepared.model), self.log, self.said.append)

    def ask(self, asker: str, x: np.ndarray = X, to: int = 0, late: float = 0.0) -> bytes:
        return self.questions.ask(self.signing[asker], "abc".index(asker), to, x, time.time() - late)


@pytest.fixture
def bench(site: Path) -> Bench:
    return Bench(site)


def test_a_question_is_answered_with_the_trained_model_and_logged(bench: Bench) -> None:
    question, desk = bench.ask("b"), bench.desk()
    good, answer = desk.reply(question)
    assert good
    np.testing.assert_array_equal(bench.questions.read_answer(answer, 0, 1, question), bench.agent.predict(X))
    desk.close()
    [line] = read_audit(bench.log)
    assert (line["event"], line["agent"], line["samples"], line["bytes"]) == ("answered", "b", 12, len(answer))
    assert broken_at(bench.log) is None


def test_every_changed_byte_of_a_question_or_an_answer_is_noticed(bench: Bench) -> None:
    question = bench.ask("b", X[:1])
    desk = bench.desk()
    _, answer = desk.reply(question)
    for index in range(len(question)):
        bad = bytearray(question)
        bad[index] ^= 1
        with pytest.raises(InvalidInput):
            bench.questions.read(bytes(bad), 0)
    for index in range(len(answer)):
        bad = bytearray(answer)
        bad[index] ^= 1
        with pytest.raises(InvalidInput):
            bench.questions.read_answer(bytes(bad), 0, 1, question)
    for data in (b"", question[:-1], question + b"x", question[:60], bytes(10), bytes(2_000_000)):
        assert desk.reply(data) == (False, b"wrong")
    desk.close()
    assert len(read_audit(bench.log)) < 8, "what cannot be read does not fill the log"


def test_a_question_is_for_one_peer_one_federation_and_one_moment(bench: Bench) -> None:
    desk = bench.desk()
    assert desk.reply(bench.ask("b", to=2)) == (False, b"wrong"), "to c: b cannot have it answered by a"
    assert desk.reply(bench.ask("b", late=400)) == (False, b"clock")
    assert desk.reply(bench.ask("b", late=float("nan"))) == (False, b"wrong")
    question = bench.ask("b")
    assert desk.reply(question)[0]
    assert desk.reply(question) == (False, b"again")
    others = replace(bench.prepared.federation, id="another")
    foreign = Questions(others, bench.prepared.shared).ask(bench.signing["b"], 1, 0, X, time.time())
    assert desk.reply(foreign) == (False, b"wrong")
    forged = bench.questions.ask(bench.signing["c"], 1, 0, X, time.time())
    assert desk.reply(forged) == (False, b"wrong"), "c cannot ask in the name of b"
    assert desk.reply(bench.ask("b", np.full((1, 2), np.inf, np.float32))) == (False, b"wrong")
    another = bench.ask("b")
    with pytest.raises(QuestionError, match="to something else"):
        bench.questions.read_answer(desk.reply(question := bench.ask("c"))[1], 0, 2, another)
    desk.close()
    assert question and all(word in REFUSALS for word in (b"clock", b"again", b"wrong", b"enough", b"not you"))


def test_an_old_refusal_refuses_no_other_question() -> None:
    assert refusal_from(refusal(b"not you", b"one"), b"one") == REFUSALS[b"not you"]
    assert refusal_from(refusal(b"\x1b[2J", b"one"), b"one") == "it does not answer"
    for old in (refusal(b"not you", b"one"), b"not you", b""):
        with pytest.raises(QuestionError, match="to something else"):
            refusal_from(old, b"another")


def test_a_question_of_another_version_is_refused_with_that_reason(bench: Bench) -> None:
    question, desk = bytearray(bench.ask("b")), bench.desk()
    question[4] += 1
    assert desk.reply(bytes(question)) == (False, b"version")
    desk.close()
    assert "another version of consilience" in REFUSALS[b"version"]
    assert "it has version 2 of questions, this site version 1" in read_audit(bench.log)[0]["reason"]


@pytest.mark.parametrize("number", [3e38, -3e38, 1e30])
def test_a_sample_that_no_model_can_take_is_refused_and_the_next_one_answered(bench: Bench, number: float) -> None:
    desk = bench.desk()
    assert desk.reply(bench.ask("b", np.full((1, 2), number, np.float32))) == (False, b"wrong")
    assert desk.reply(bench.ask("b"))[0]
    desk.close()
    refused, _ = read_audit(bench.log)
    assert (refused["event"], refused["agent"]) == ("refused", "b")
    assert "far outside of the range of the shared data" in refused["reason"]


def test_a_model_that_fails_on_a_question_ends_nothing_and_is_asked_less(site: Path) -> None:
    bench = Bench(site, answer_rows=20)

    class Failing:
        manifest = load_model(bench.prepared.model).manifest

        def predict(self, x: np.ndarray) -> np.ndarray:
            raise MemoryError(f"{len(x)} samples are too many")

    desk = QuestionHandler(bench.prepared, Failing(), bench.log, bench.said.append)
    assert desk.reply(bench.ask("b")) == (False, b"wrong")
    assert desk.reply(bench.ask("b")) == (False, b"enough"), "what fails costs time, too"
    desk.close()
    assert [line["event"] for line in read_audit(bench.log)] == ["refused", "refused"]
    assert "refused a question of b (the model cannot predict its samples: MemoryError: 12 samples" in bench.said[0]


def test_a_site_answers_whom_it_will_and_as_much_as_it_will(site: Path) -> None:
    bench = Bench(site, answer_to=("b",), answer_rows=20)
    desk = bench.desk()
    assert desk.reply(bench.ask("c")) == (False, b"not you")
    assert desk.reply(bench.ask("b"))[0]
    assert desk.reply(bench.ask("b")) == (False, b"enough")
    assert desk.reply(bench.ask("b", X[:8]))[0]
    desk.close()
    again = bench.desk()  # the log remembers
    assert again.reply(bench.ask("b", X[:1])) == (False, b"enough")
    again.close()
    assert "refused a question of c (not you)" in bench.said


def test_the_model_must_be_there_and_of_this_federation(site: Path) -> None:
    prepared = load_site(site)
    with pytest.raises(ConsilienceError, match="holds no trained model"):
        site_model(prepared)
    bench = Bench(site)
    export_agent(bench.agent, bench.prepared.model, X, Facts(training={"federation": "other"}), overwrite=True)
    with pytest.raises(ConsilienceError, match="of another federation"):
        site_model(bench.prepared)
