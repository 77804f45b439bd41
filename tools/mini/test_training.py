"""Training as a whole, very small on the CPU: runs that follow each other, export, schedule."""

import json
import random
import time

import pytest

pytest.importorskip("tokenizers", reason="the tests of training need tokenizers")
pytest.importorskip("jinja2", reason="the tests of training need jinja2")
torch = pytest.importorskip("torch", reason="the tests of training need torch")
safetensors_torch = pytest.importorskip("safetensors.torch", reason="the tests of training need safetensors")

import train  # noqa: E402
import warm_up  # noqa: E402
from architecture import Architecture, tensors  # noqa: E402
from conversations import ANSWER, FORCED, OTHER  # noqa: E402
from data import BATCH_SLOTS, pack, row_length  # noqa: E402
from delta_rule import CHUNK  # noqa: E402
from export import SHARD_BYTES, shards  # noqa: E402
from schedule import CONTINUED, LENGTHS, TRAINING  # noqa: E402

SMALL = Architecture(
    hidden=64,
    layers=4,
    query_heads=2,
    kv_heads=1,
    head_size=64,
    rotated=16,
    delta_key_heads=1,
    delta_value_heads=2,
    delta_head_size=64,
    experts=4,
    experts_per_token=2,
)


def test_two_runs_train_export_and_evaluate(tmp_path):
    settings = dict(
        state=str(tmp_path / "state.pt"),
        out=str(tmp_path / "out"),
        device="cpu",
        slots=512,
        workers=1,
        check_tasks=1,
        suite_tasks=2,
    )
    first = train.run(train.Settings(wall=train.SAVE_SECONDS + 8, to=0.5, **settings), SMALL, time.time())
    assert first.runs[-1]["to"] == 0.5 and first.step > 0
    second = train.run(train.Settings(wall=train.FINAL_SECONDS + 6, to=1.0, **settings), SMALL, time.time())
    assert [run["from"] for run in second.runs] == [0.0, 0.5] and second.step > first.step

    names = set()
    for file in (tmp_path / "out").glob("*.safetensors"):
        names |= set(safetensors_torch.load_file(file))
    assert names == set(tensors(SMALL))
    evaluation = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert (
        evaluation["tasks"] and evaluation["quantized"]["exact"].keys() == evaluation["bf16"]["exact"].keys()
    )
    log = json.loads((tmp_path / "out" / "log.json").read_text())
    assert len(log["runs"]) == 2 and any(record["kind"] == "suite" for record in log["records"])


def test_a_training_begins_with_an_export(tmp_path):
    def settings(**own):
        small = dict(device="cpu", slots=512, workers=1, check_tasks=1, suite_tasks=1)
        return train.Settings(state=own["out"] + ".pt", **small, **own)

    out = [str(tmp_path / name) for name in ("first", "second")]
    first = train.run(settings(wall=train.SAVE_SECONDS + 2, to=0.1, out=out[0]), SMALL, time.time())
    trainer = train.Trainer(
        settings(wall=1.0, to=1.0, out=out[1], begin_with=out[0]), SMALL, time.time(), compiling=()
    )
    trainer.loader.stop()
    assert trainer.step == 0 and trainer.schedule is CONTINUED
    expected = first.optimizer.average.to(torch.bfloat16).float()
    assert torch.equal(trainer.parameters.masters, expected)
    assert torch.equal(trainer.optimizer.average, expected)


@pytest.mark.parametrize("part", [*warm_up.MODEL_PARTS, warm_up.OPTIMIZER])
def test_every_part_is_compiled_with_its_gradients(part, monkeypatch):
    compiled = []

    def compile_plainly(function, **_):
        compiled.append(function)
        return function

    monkeypatch.setattr(torch, "compile", compile_plainly)
    if part == warm_up.OPTIMIZER:
        warm_up.compile_optimizer(SMALL, "cpu")
    else:
        warm_up.compile_model_part(part, SMALL, 512, "cpu")
    assert len(compiled) == (3 if part == warm_up.OPTIMIZER else 1)


def test_the_loss_of_one_batch_falls_and_the_weights_are_averaged():
    from model import Model
    from optimizer import Optimizer
    from parameters import Parameters

    parameters = Parameters(SMALL, 1, "cpu", torch.float32, lambda function: function)
    optimizer, model = Optimizer(parameters, lambda function: function), Model(
        SMALL, parameters.weights, fast=False
    )
    ids = torch.randint(0, 4096, (2, 65), generator=torch.Generator().manual_seed(1))
    weights, losses, masters = torch.ones(2, 64), [], []
    for step in range(1, 19):
        parameters.refresh(quantized=step % 2 == 0)
        parameters.gradients.zero_()
        loss = model.loss(ids, weights)[0] / weights.sum()
        loss.backward()
        losses.append(loss.item())
        optimizer.set_step(step, 0.5, 1.0)
        optimizer.step()
        masters.append(parameters.masters.clone())
    assert losses[-1] < 0.75 * losses[0], losses
    assert torch.allclose(optimizer.average, torch.stack(masters).mean(0), atol=1e-5)


def test_packing_shifts_weights_to_the_token_before():
    ids, weights = pack([([7, 8, 9], [OTHER, OTHER, ANSWER])], 4, 2)
    assert str(ids.dtype) == "int16" and ids.tolist() == [[7, 8, 9, 0, 0], [0] * 5]
    assert weights.tolist() == [[OTHER, ANSWER, FORCED, FORCED], [FORCED] * 4]


@pytest.mark.parametrize("tokens, length", [(1, 128), (129, 128), (130, 192), (11521, 11520), (11522, None)])
def test_a_row_holds_one_token_more_than_its_length(tokens, length):
    assert row_length(tokens, LENGTHS) == length


@pytest.mark.parametrize("schedule", [TRAINING, CONTINUED])
def test_every_row_length_fills_a_batch(schedule):
    assert all(BATCH_SLOTS % length == 0 and length % CHUNK == 0 for length in schedule.lengths)
    assert schedule.lengths[-1] >= max(length for _, length in schedule.long_shares)


@pytest.mark.parametrize("schedule", [TRAINING, CONTINUED])
def test_the_rate_rises_stays_and_falls(schedule):
    assert schedule.rate(0.0, 0) < 0.01 and schedule.rate(0.2, 5000) == pytest.approx(schedule.peak_rate)
    assert schedule.rate(1.0, 5000) == pytest.approx(schedule.last_rate)
    assert schedule.rate(0.6, 5000) > schedule.rate(0.8, 5000)


def test_conversations_grow():
    chance = random.Random(1)
    assert TRAINING.longest_conversation(0.0, chance) == 500
    late = {TRAINING.longest_conversation(0.9, chance) for _ in range(500)}
    assert late == {length for _, length in TRAINING.long_shares}


def test_shards_are_small_and_complete():
    every = tensors(Architecture())
    groups = shards(every)
    assert [name for names in groups for name in names] == list(every)
    assert all(sum(2 * every[name].size for name in names) <= SHARD_BYTES for names in groups)
    assert len(groups) == 2


def test_mending_writes_weights_that_answer_what_was_missing(tmp_path):
    import mend
    from export import export, load_export
    from parameters import Parameters

    def parameters_of(folder=None):
        parameters = Parameters(SMALL, 1, "cpu", torch.float32, lambda function: function)
        if folder:
            load_export(parameters, folder)
        return parameters

    def loss_of(parameters):
        encoder, words = mend.Encoder(), mend.Words("mending", held_out=False)
        batch = mend.samples(words, encoder, mend.nothing_given, 8, mend.LENGTH)
        parameters.refresh(quantized=True)
        with torch.no_grad():
            return mend.batch_loss(mend.Model(SMALL, parameters.weights, False), batch, mend.LENGTH).item()

    begin, mended = tmp_path / "begin", tmp_path / "mended"
    first = parameters_of()
    export(first, first.masters, SMALL, 4060, begin)
    mend.mend(begin, mended, SMALL, steps=6)
    assert loss_of(parameters_of(mended)) < loss_of(first)
