"""Training on one GPU, in one run or in several that follow each other; main.py is the command line.

A run goes on from the state file if there is one, trains until `wall` seconds after its start less what
saving needs, brings the schedule's progress (0 to 1) to `to` in that time, saves the state and exports the
weights. The run that reaches 1 also evaluates the held-out tasks, with the exported weights and with quantized
ones. Progress is measured in time, because what is limited is the time on the machine; the log also counts
tokens.
"""

import contextlib
import dataclasses
import json
import multiprocessing
import os
import pathlib
import time
from concurrent.futures import ProcessPoolExecutor

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import held_out
import warm_up
from architecture import Architecture
from conversations import ANSWER, DECISION, FORCED, OTHER, Encoder
from cuda_graphs import BatchGraphs, OptimizerGraph
from data import BATCH_SLOTS, Loader
from evaluate import evaluate, prepare
from export import export, load_export, write_json
from model import Model
from optimizer import Optimizer
from parameters import Parameters
from schedule import CONTINUED, TRAINING

# Of text that the model only reads: it helps at first; later, words that nobody can guess are mostly noise.
OTHER_WEIGHT, LAST_OTHER_WEIGHT = 0.02, 0.005
DECISION_WEIGHT = 4.0
BALANCE_WEIGHT = 0.003
LOG_SECONDS = 10
CHECK_SECONDS = 60  # between quick evaluations, each with a saved state and an export
CHECK_TASKS = 30  # of each kind
CHECK_SEED = 4242  # tasks of their own: the suite's are judged once, at the end
SAVE_SECONDS = 12  # kept at the end of a run for saving and exporting
FINAL_SECONDS = 8  # kept instead by the run that evaluates
FRESH_STATE = {"progress": 0.0, "step": 0, "slots": 0}


@dataclasses.dataclass
class Settings:
    wall: float
    to: float
    state: str
    out: str
    seed: int = 1
    begin_with: str = ""
    device: str = "cuda"
    slots: int = BATCH_SLOTS
    workers: int = 10
    check_tasks: int = CHECK_TASKS
    suite_tasks: int = held_out.SUITE_TASKS


class Log:
    """Lines on standard output, and records that are written to a file at the end."""

    def __init__(self, started):
        self.started = started
        self.records = []

    def seconds(self):
        return time.time() - self.started

    def say(self, *words):
        print(f"[{self.seconds():6.1f}]", *words, flush=True)

    def record(self, kind, **values):
        self.records.append({"kind": kind, **values})
        self.say(kind, json.dumps(values))


class Sums:
    """What is summed on the device between two log lines."""

    NAMES = ("answer_loss", "answer_right", "answers", "other_loss", "others", "balance")

    def __init__(self, device):
        self.values = torch.zeros(len(self.NAMES), device=device)

    def add(self, by_token, correct, codes, balance):
        answer, other = codes >= ANSWER, codes == OTHER
        self.values.add_(
            torch.stack(
                [
                    (by_token * answer).sum(),
                    (correct & answer).sum().float(),
                    answer.sum().float(),
                    (by_token * other).sum(),
                    other.sum().float(),
                    balance,
                ]
            )
        )

    def take(self):
        values = dict(zip(self.NAMES, self.values.tolist()))
        self.values.zero_()
        return values


def prepare_suite(per_kind):
    return prepare(held_out.tasks(held_out.SUITE_SEED, per_kind), Encoder())


class Trainer:
    def __init__(self, settings, architecture, started, compiling):
        self.log = Log(started)
        self.compiling = compiling
        self.settings, self.architecture = settings, architecture
        self.schedule = CONTINUED if settings.begin_with else TRAINING
        self.gpu = settings.device == "cuda"
        saved = pathlib.Path(settings.state).exists()
        state = (
            torch.load(settings.state, map_location="cpu") if saved else dict(FRESH_STATE, runs=[], log=[])
        )
        self.first_progress, self.step, self.slots = state["progress"], state["step"], state["slots"]
        self.runs, self.log.records = state["runs"], state["log"]
        # Workers are forked before anything touches the device.
        self.loader = Loader(
            f"{settings.seed} {self.step}",
            self.schedule,
            settings.workers,
            settings.slots,
            settings.device,
        )
        self.loader.progress.value = self.first_progress
        # So is the one that prepares the suite, so that no time on the device goes into it.
        self.suite = None
        if settings.to >= 1:
            self.suite = ProcessPoolExecutor(1, multiprocessing.get_context("fork")).submit(
                prepare_suite, settings.suite_tasks
            )
        self.encoder = Encoder()
        compiled = torch.compile if self.gpu else (lambda function: function)
        self.parameters = Parameters(
            architecture,
            settings.seed,
            settings.device,
            torch.bfloat16 if self.gpu else torch.float32,
            compiled,
        )
        if settings.begin_with:
            load_export(self.parameters, settings.begin_with)
        self.optimizer = Optimizer(self.parameters, compiled)
        if saved:
            self.parameters.masters.copy_(state["masters"])
            self.optimizer.load(state)
        self.other_weight = torch.full((), OTHER_WEIGHT, device=settings.device)
        parts = warm_up.MODEL_PARTS if self.gpu else ()
        self.model = Model(architecture, self.parameters.weights, self.gpu, parts)
        self.sums = Sums(settings.device)
        self.log.say(
            f"{self.parameters.size / 1e6:.2f} M parameters, {self.parameters.quantized_megabytes():.2f} MB "
            f"quantized; from progress {self.first_progress:.3f}, step {self.step}"
        )

    def batch(self, ids, codes):
        """Forward and backward; returns the loss before it is weighted with the balance loss."""
        weights = (
            (codes == OTHER) * self.other_weight
            + (codes == ANSWER) * 1.0
            + (codes == DECISION) * DECISION_WEIGHT
        )
        loss, balance, by_token, correct = self.model.loss(ids.long(), weights)
        (loss / weights.sum().clamp(min=1) + BALANCE_WEIGHT * balance).backward()
        with torch.no_grad():
            self.sums.add(by_token.detach(), correct, codes, balance.detach() / self.architecture.layers)
        return loss.detach()

    def prepare_steps(self):
        """Functions for one batch and for the optimizer's step.

        On the GPU they are CUDA graphs, all captured here: compiling then is over when the schedule's clock
        starts, and whatever the machine cannot do shows at once."""
        if not self.gpu:
            return self.batch, self.optimizer.step
        failed = warm_up.wait(self.compiling)
        self.log.say("compiled", f"except {', '.join(failed)}" if failed else "every part")
        torch.cuda.synchronize()
        torch.cuda.set_stream(torch.cuda.Stream())
        for quantized in (True, False):
            self.parameters.refresh(quantized)
        self.log.say("delta rule, relative errors", json.dumps(self.model.check_delta_rule()))
        pool = torch.cuda.graph_pool_handle()
        batches = BatchGraphs(self.batch, self.parameters.gradients, self.sums.values, pool)
        for length in self.schedule.lengths:
            rows = self.settings.slots // length
            ids = torch.randint(
                0, self.architecture.vocabulary, (rows, length + 1), dtype=torch.int16, device="cuda"
            )
            codes = torch.randint(FORCED, DECISION + 1, (rows, length), dtype=torch.uint8, device="cuda")
            batches.capture(ids, codes)
            self.log.say(
                f"captured rows of {length}, {torch.cuda.max_memory_allocated() / 2 ** 30:.1f} GiB at most"
            )
        optimizer = OptimizerGraph(self.optimizer, pool)
        optimizer.capture()
        return batches.run, optimizer.run

    def train_step(self, run_batch, run_optimizer, progress):
        """One step of the optimizer; returns the seconds it waited for data."""
        self.loader.progress.value = progress
        self.parameters.refresh(progress >= self.schedule.quantized_from)
        self.parameters.gradients.zero_()
        self.other_weight.fill_(OTHER_WEIGHT + (LAST_OTHER_WEIGHT - OTHER_WEIGHT) * progress)
        count, waited = self.schedule.batches(progress), 0.0
        for _ in range(count):
            start = time.time()
            ids, codes = self.loader.next()
            waited += time.time() - start
            run_batch(ids, codes)
            self.slots += self.settings.slots
        rate = self.schedule.rate(progress, self.step)
        self.step += 1
        self.optimizer.set_step(self.step, rate, 1.0 / count)
        run_optimizer()
        return waited

    def train(self):
        """Trains until the time is over; returns the progress reached."""
        self.loader.start_copying()
        checks = prepare(held_out.tasks(CHECK_SEED, self.settings.check_tasks), self.encoder)
        run_batch, run_optimizer = self.prepare_steps()
        first, target, first_slots = self.first_progress, self.settings.to, self.slots
        end = self.settings.wall - (FINAL_SECONDS if target >= 1 else SAVE_SECONDS)
        begun = logged = checked = self.log.seconds()
        if begun >= end:
            raise RuntimeError(
                f"the run was ready after {begun:.0f} s; --wall {self.settings.wall:.0f} leaves no time"
            )
        self.log.say("training begins")
        logged_slots, waited = self.slots, 0.0
        while (now := self.log.seconds()) < end:
            progress = first + (target - first) * (now - begun) / (end - begun)
            waited += self.train_step(run_batch, run_optimizer, progress)
            if now - logged > LOG_SECONDS:
                self.log_progress(progress, now - logged, self.slots - logged_slots, waited)
                logged, logged_slots, waited = now, self.slots, 0.0
            if now - checked > CHECK_SECONDS:
                self.check(progress, checks)
                self.save_state(progress)  # a run that is cut off loses little
                self.export()
                checked = self.log.seconds()
        if self.gpu:
            torch.cuda.synchronize()
        self.loader.stop()
        self.runs.append(
            {
                "seed": self.settings.seed,
                "from": first,
                "to": target,
                "ready": round(begun, 1),
                "seconds": round(self.log.seconds() - begun, 1),
                "slots": self.slots - first_slots,
            }
        )
        self.log.say("trained", json.dumps(self.runs[-1]))
        return target

    def log_progress(self, progress, seconds, slots, waited):
        sums = self.sums.take()
        answers, others = max(1.0, sums["answers"]), max(1.0, sums["others"])
        self.log.record(
            "train",
            step=self.step,
            progress=round(progress, 4),
            slots=self.slots,
            rate=round(self.schedule.rate(progress, self.step), 4),
            loss=round(sums["answer_loss"] / answers, 4),
            right=round(sums["answer_right"] / answers, 4),
            other=round(sums["other_loss"] / others, 3),
            balance=round(sums["balance"] * self.settings.slots / slots, 3),
            norm=round(self.optimizer.gradient_norm.item(), 3),
            slots_per_second=int(slots / seconds),
            waiting=round(waited / seconds, 3),
        )

    def check(self, progress, items):
        self.parameters.refresh(progress >= self.schedule.quantized_from, self.optimizer.average)
        score = evaluate(self.model, items, self.schedule.lengths, self.settings.slots, self.settings.device)
        self.log.record(
            "check", step=self.step, progress=round(progress, 4), exact=score.exact, loss=score.loss
        )

    def save_state(self, progress):
        """Writes what the next run needs; a file that is there stays whole until the new one is."""
        path = pathlib.Path(self.settings.state)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".new")
        state = {"progress": progress, "step": self.step, "slots": self.slots, "runs": self.runs}
        state |= {"log": self.log.records, "masters": self.parameters.masters, **self.optimizer.state()}
        torch.save(state, unfinished)
        os.replace(unfinished, path)

    def export(self):
        end_of_text = self.encoder.tokenizer.token_to_id("<|endoftext|>")
        export(self.parameters, self.optimizer.average, self.architecture, end_of_text, self.settings.out)
        self.write_log()
        self.log.say("exported")

    def write_log(self):
        write_json(
            pathlib.Path(self.settings.out) / "log.json", {"runs": self.runs, "records": self.log.records}
        )

    def evaluate_suite(self):
        items = self.suite.result()
        result = {}
        for name, quantized in (("bf16", False), ("quantized", True)):
            self.parameters.refresh(quantized, self.optimizer.average)
            score = evaluate(
                self.model, items, self.schedule.lengths, self.settings.slots, self.settings.device
            )
            result[name] = {"exact": score.exact, "loss": score.loss}
            result["tasks"] = score.counts
            self.log.record("suite", weights=name, exact=score.exact, loss=score.loss)
        write_json(pathlib.Path(self.settings.out) / "evaluation.json", result)
        self.write_log()


def run(settings, architecture, started, compiling=()):
    """A whole run; `started` is the time from which `settings.wall` counts, `compiling` are warm_up.py's
    processes."""
    trainer = Trainer(settings, architecture, started, compiling)
    # Only the flash kernel can be captured for every row length; elsewhere torch chooses.
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION]) if trainer.gpu else contextlib.nullcontext():
        reached = trainer.train()
        trainer.save_state(reached)
        trainer.export()
        if reached >= 1:
            trainer.evaluate_suite()
    return trainer
