"""A data set over several domains, whose shares may change while it is read.

Every step has b rows, b_k of them of domain k, in the domains' order; rows stand at consecutive
positions of their domain's order. Of W processes, process r takes rows r, r + W, ... of the step,
in micro-batches; of its w workers, worker j makes micro-batches j, j + w, .... So the counts are
exact over all processes, and no row depends on how many processes or workers there are.

Shapes: K domains, B rows of a step.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from pike_mixing import by_domain
from pike_mixing.apportion import apportion_over_steps
from pike_mixing.arrays import Floats, Ints
from pike_mixing.errors import InputError
from pike_mixing.torch import parallel, resume_state, row_checks, streams

RING = 1024
"""Steps whose counts are kept for workers: far more than any of them lags behind."""


class PublishedCounts:
    """The counts of the last steps, in memory that workers share."""

    def __init__(self, K: int, batch_rows: int) -> None:
        """Begins without any; those of a step will sum to `batch_rows`."""
        self._rows = batch_rows
        self._ring = torch.zeros(RING, K, dtype=torch.int64).share_memory_()
        self._last = torch.full((), -1, dtype=torch.int64).share_memory_()

    @property
    def last_step(self) -> int:
        """The last step that has counts; -1 before the first."""
        return int(self._last)

    def add(self, step: int, count_K: Ints) -> None:
        """Fixes the counts of the next step."""
        if step != self.last_step + 1:
            raise InputError(f"publish: step {step} is not the next one, {self.last_step + 1}")
        K = self._ring.shape[1]
        if count_K.shape != (K,) or count_K.min() < 0 or count_K.sum() != self._rows:
            raise InputError(
                f"publish: {count_K.tolist()} are no counts of {K} domains that sum to {self._rows}"
            )
        self._ring[step % RING] = torch.from_numpy(count_K)
        self._last.fill_(step)

    def counts_or_refuse(self, step: int) -> Ints:
        """Rows of each domain in a step.

        Raises:
            InputError: they are not published yet.
        """
        if step > self.last_step:
            raise InputError(
                f"step {step} is drawn before the weights of that step are known (they are up to "
                f"step {self.last_step}): end_step was not called, or the loader prefetches. Use "
                "Mixing.data_loader, or set Mixing's `latency` to the steps that it draws ahead: "
                "ceil((num_workers * prefetch_factor + 1) / micro-batches of a step)"
            )
        assert step > self.last_step - RING, "a worker lags behind by the whole ring"
        count_K: Ints = self._ring[step % RING].numpy().copy()
        return count_K

    def counts_since(self, step: int) -> list[list[int]]:
        """The counts from a step on, as far as they are kept."""
        steps = range(max(step, self.last_step - RING + 1), self.last_step + 1)
        return [self.counts_or_refuse(step).tolist() for step in steps]

    def restore(self, last: int, counts: Sequence[Sequence[int]], *, keep_later: bool) -> None:
        """Goes on from what `counts_since` gave, which ends with the `last` step; -1 for none.

        With `keep_later`, later steps stay published: a worker that goes on knows less than the
        process that publishes.
        """
        for step, count_K in zip(range(last - len(counts) + 1, last + 1), counts, strict=True):
            self._ring[step % RING] = torch.tensor(count_K)
        self._last.fill_(max(last, self.last_step) if keep_later else last)


ENDS = ("first_exhausted", "all_exhausted")


class MixedDataset(IterableDataset[Any]):
    """Rows of named domains, mixed by counts that are published step by step.

    Without a publisher, weights are fixed: given, or 1/K. `Mixing` publishes the counts of a
    method. A step's counts must be published before a worker begins the step; how many steps ahead
    that is, is the latency of new weights.
    """

    def __init__(
        self,
        datasets: Mapping[str, Any],
        batch_rows: int,
        *,
        weights: Mapping[str, float] | None = None,
        seed: int = 0,
        shuffle: bool = True,
        micro_batch_rows: int | None = None,
        steps: int | None = None,
        ends: Literal["first_exhausted", "all_exhausted"] | None = None,
        place: tuple[int, int] | None = None,
        columns: row_checks.Columns = "same",
    ) -> None:
        """Opens the domains.

        Before the first row is read, the first row of each domain is compared with the others', and
        with those of the other processes.

        Args:
            datasets: By domain: map-style data sets or iterables, of Hugging Face or any other.
            batch_rows: Rows b of a step over all processes and micro-batches.
            weights: Fixed weights by domain.
            seed: Seed of the order in which map-style data sets are read.
            shuffle: Whether they are shuffled.
            micro_batch_rows: Rows that a process passes together: the `batch_size` of the loader.
                All of its rows of a step when absent.
            steps: Steps after which it ends, and begins anew when it is read again; endless when
                absent.
            ends: What ends it, too: the first domain of which a row would come again, or the last.
            place: Rank and number of the processes among which rows are dealt; when absent those of
                `torch.distributed`, and (0, 1) where Accelerate or a Trainer of transformers
                deals the rows afterwards.
            columns: "same": rows of all domains must have the same columns, of the same types.
                "union": a column that a domain lacks is None. "any": they are not compared, for a
                collate function that takes rows of several kinds.

        Raises:
            InputError: no domains, one without rows or that is no data set, or weights that do not
                fit them.
        """
        if not isinstance(datasets, Mapping) or not datasets:
            raise InputError('datasets: give at least one domain by its name: {"en": english}')
        numbers = {"batch_rows": batch_rows, "micro_batch_rows": micro_batch_rows, "steps": steps}
        for name, number in numbers.items():
            if number is not None and not (isinstance(number, Integral) and number >= 1):
                raise InputError(f"{name}: {number!r} must be a whole number of at least 1")
        if ends not in (None, *ENDS):
            raise InputError(f"ends: {ends!r}: take {' or '.join(ENDS)}")
        if columns not in (known := get_args(row_checks.Columns)):
            raise InputError(f"columns: {columns!r}: take {', '.join(known)}")
        for domain, dataset in datasets.items():
            row_checks.refuse_unless_elements_are_rows(domain, dataset)
        self.domains, self.batch_rows, self.seed = tuple(datasets), int(batch_rows), int(seed)
        self.steps, self._ends = steps, ends
        self._datasets, self._shuffle = dict(datasets), shuffle
        self._micro_batch_rows, self._place = micro_batch_rows, place
        self._whole, self._pickled_place = False, None
        self.columns = columns
        self._union = row_checks.ColumnUnion(self._datasets) if columns == "union" else None
        K = len(self.domains)
        self._weights_K: Floats | None = by_domain.shares_in_order(weights, self.domains, "weights")
        self._streams = self.streams("train")
        if ends and not all(hasattr(d, "__len__") for d in datasets.values()):
            raise InputError("steps: give them: a data set without length does not say its end")
        self._length_K: Ints | None = np.array([*map(len, datasets.values())]) if ends else None
        self.settings: dict[str, Any] = {
            "domains": self.domains,
            "lengths": [streams.map_style_length(dataset) for dataset in datasets.values()],
            "streams": {
                name: streams.installed_datasets_release()
                for name, dataset in datasets.items()
                if streams.is_datasets_stream(dataset)
            },
            "batch_rows": self.batch_rows,
            "seed": self.seed,
            "shuffle": shuffle,
            "weights": self._weights_K,
            "ends": ends,
        }
        self._published = PublishedCounts(K, self.batch_rows)
        self._compared = False
        self._shared_key = row_checks.take_shared_dataset_key(
            self.settings | {"lengths": None, "steps": steps}
        )
        # Streams are not opened before they are read.
        self._refuse_domains_unlike_published(
            "made", lambda dataset: streams.map_style_length(dataset) is not None
        )
        self._ended: int | None
        self._count_K: Ints | None
        """Counts of a step that has begun: `set_weights` may follow before its end."""
        self.seek(0, np.zeros(K, dtype=np.int64))

    @property
    def place(self) -> tuple[int, int]:
        """Rank of this process and number of processes."""
        own = self._pickled_place or (parallel.rank(), parallel.world_size())
        if self._place is not None or own[1] == 1:
            return self._place or own
        return (0, 1) if self._whole or parallel.is_caller_dealing_rows() else own

    @property
    def weights_unless_published(self) -> Floats | None:
        """Shares that were set; None where a method's counts have taken their place."""
        return self._weights_K

    @property
    def micro_batch_rows(self) -> int:
        """Rows of a micro-batch.

        Raises:
            InputError: a step's rows cannot be dealt evenly.
        """
        _, world = self.place
        own, left = divmod(self.batch_rows, world)
        result = self._micro_batch_rows or max(own, 1)
        if left or own % result:
            size = self._micro_batch_rows or 1
            pieces = f" in micro-batches of {size}" if self._micro_batch_rows else ""
            raise InputError(
                f"batch_rows: {self.batch_rows} rows cannot be dealt to {world} processes{pieces}: "
                f"make it a multiple of {world * size}"
            )
        return result

    @property
    def micro_batches(self) -> int:
        """Micro-batches of a step on each process: the steps of gradient accumulation."""
        return self.batch_rows // self.place[1] // self.micro_batch_rows

    def streams(self, purpose: str) -> list[streams.Stream]:
        """The domains' rows in another order, for another purpose."""
        opened = [
            streams.open_stream(d, n, seed=self.seed, purpose=purpose, shuffle=self._shuffle)
            for n, d in self._datasets.items()
        ]
        return [row_checks.FilledStream(s, self._union) for s in opened] if self._union else opened

    def refuse_unusable_rows(
        self, collate_fn: Callable[[list[Any]], Any], group: parallel.Group
    ) -> None:
        """Compares the domains' first rows, as micro-batches of them, once; on all processes."""
        if self._compared:
            return
        if parallel.world_size(group) > 1:
            row_checks.refuse_streams_split_by_process(self._datasets)
            row_checks.refuse_domains_unlike_group(self._datasets, group)
        if self.columns != "any":
            rows = row_checks.read_first_rows(self._datasets)
            if self._union:
                rows = {n: self._union.with_missing_columns(row) for n, row in rows.items()}
            row_checks.refuse_uncollatable_domains(rows, collate_fn, self.micro_batch_rows)
        self._compared = True

    def _refuse_domains_unlike_published(
        self, moment: str, is_compared_dataset: Callable[[Any], bool]
    ) -> None:
        """Compares those domains of which this is true with the other processes'."""
        if parallel.world_size() > 1 and (self._place is None or self._place[1] > 1):
            compared = {n: d for n, d in self._datasets.items() if is_compared_dataset(d)}
            if compared:
                key = f"{self._shared_key}/{moment}"
                row_checks.refuse_domains_unlike_published(compared, key)

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Changes fixed weights from the next step on that is begun; for a loader without workers.

        Raises:
            InputError: the counts are published step by step.
        """
        if self._weights_K is None:
            raise InputError("set_weights: the counts are published by a method: change its state")
        self._weights_K = by_domain.shares_in_order(weights, self.domains, "weights")

    def publish(self, step: int, count_K: Ints) -> None:
        """Fixes the counts of the next step that has none; from then on no weights are fixed.

        Raises:
            InputError: another step is next, or the counts do not sum to the batch.
        """
        self._published.add(step, count_K)
        self._weights_K = None

    @property
    def published_step(self) -> int:
        """The last step whose counts are published; -1 before the first."""
        return self._published.last_step

    def counts(self, step: int) -> Ints:
        """Rows of each domain in a step.

        Raises:
            InputError: they are not published yet.
        """
        if step == self._step and self._count_K is not None:
            return self._count_K
        if self._weights_K is not None and self.published_step < step:
            return apportion_over_steps(self._weights_K, self.batch_rows, step)
        return self._published.counts_or_refuse(step)

    def domain_of_rows_on_process(self, step: int) -> Ints:
        """Domain of each row that this process passes in a step, in the order of the rows."""
        rank, world = self.place
        return np.repeat(np.arange(len(self.domains)), self.counts(step))[rank::world]

    def __iter__(self) -> Iterator[Any]:
        """Rows from where the state stands; in a worker, those of its micro-batches.

        Raises:
            InputError: rows of the domains do not fit each other, or would be dealt twice.
        """
        self._whole, worker = parallel.is_caller_dealing_rows(), get_worker_info()
        if self._whole and self._place and self._place[1] > 1:
            raise InputError(
                f"place: {self._place}, but what reads this data set deals its rows to the "
                "processes, too (a loader that Accelerate prepared, the Trainer of transformers, "
                "another MixedDataset): leave `place` away"
            )
        if not (self._place and self._place[1] == 1) and parallel.world_size() > 1:
            row_checks.refuse_streams_split_by_process(self._datasets)
        # One worker is enough; and workers cannot ask the other processes.
        if not self._compared and not (worker and worker.id):
            if not worker:
                self._refuse_domains_unlike_published("read", lambda _: True)
            if self.columns != "any":
                rows = row_checks.read_first_rows(self._datasets)
                union = self.columns == "union"
                row_checks.refuse_different_columns_or_kinds(rows, allow_missing=union)
            self._compared = True
        return self._iterate_rows()

    def _iterate_rows(self) -> Iterator[Any]:
        rank, world, number, workers, size = self._reader_identity().values()
        in_step = self.micro_batches
        if self._step == self._ended:
            self.seek(0, np.zeros_like(self._positions_K))
        while self.steps is None or self._step < self.steps:
            count_K = self.counts(self._step)
            if self._is_exhausted(count_K):
                break
            self._count_K, domain_B = count_K, np.repeat(np.arange(len(count_K)), count_K)
            offset_B = np.concatenate([np.arange(n) for n in count_K.tolist()])
            while self._row < in_step * size:
                if (self._step * in_step + self._row // size) % workers != number:
                    self._row += size - self._row % size
                    continue
                at = rank + self._row * world
                k = int(domain_B[at])
                row = self._streams[k].row(int(self._positions_K[k] + offset_B[at]))
                self._row += 1
                yield row
            self.seek(self._step + 1, self._positions_K + count_K)
        if not self._step:
            raise InputError(f"batch_rows: {self.batch_rows} take more rows than a domain has")
        self._ended = self._step

    def _is_exhausted(self, count_K: Ints) -> bool:
        """Whether the domains that end it are read, before a step of these counts."""
        if self._length_K is None:
            return False
        left_K = self._length_K - self._positions_K
        if self._ends == "first_exhausted":
            return bool((left_K <= 0).any() or (left_K < count_K).any())
        return bool((np.where(self._weights_K == 0, 0, left_K) <= 0).all())

    def _reader_identity(self) -> dict[str, int]:
        """Who reads which rows of a step."""
        (rank, world), worker = self.place, get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        who = {"rank": rank, "processes": world, "worker": number, "workers": workers}
        return who | {"micro_batch_rows": self.micro_batch_rows}

    def __len__(self) -> int:
        """Rows of this process, where the steps are limited."""
        if self.steps is None:
            raise TypeError("a MixedDataset without `steps` has no length")
        return self.steps * (self.batch_rows // self.place[1])

    def __getstate__(self) -> dict[str, Any]:
        """For workers that start anew, and know of no other process."""
        return self.__dict__ | {"_pickled_place": self.place if parallel.world_size() > 1 else None}

    def state_dict(self) -> dict[str, Any]:
        """Where the reading stands, with the counts that are published from there on."""
        if self._row == self.batch_rows // self.place[1]:
            return self.state_at(self._step + 1, self._positions_K + self.counts(self._step))
        return self.state_at(self._step, self._positions_K, self._row)

    def state_at(self, step: int, positions_K: Ints, row: int = 0) -> dict[str, Any]:
        """The state before a step, or behind rows of it, for one who knows the positions.

        Rows that were drawn ahead come again.

        Args:
            step: The step.
            positions_K: Rows of each domain in all steps before it.
            row: Rows of the step that this process has read.
        """
        reader = self._reader_identity()
        return resume_state.state_with_digest(
            settings=resume_state.lossy_json_value(self.settings),
            # Where a step begins, and nobody reads ahead, another may go on.
            reader=reader if row or reader["workers"] > 1 else {},
            step=step,
            row=row,
            positions=positions_K.tolist(),
            weights=resume_state.lossy_json_value(self._weights_K),
            last=self.published_step,
            plan=self._published.counts_since(step),
            begun=resume_state.lossy_json_value(self._count_K) if row else None,
            ended=step == self._ended,
        )

    def seek(self, step: int, positions_K: Ints) -> None:
        """Goes to the beginning of a step, where `positions_K` rows of each domain come before."""
        self._step, self._row, self._positions_K = step, 0, positions_K.copy()
        self._count_K, self._ended = None, None

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state, see `resume_state`.

        Raises:
            InputError: it is damaged, or of something else: each value that is not as it must be.
        """
        state = resume_state.lossy_json_value(state)
        bound = isinstance(state, Mapping) and state.get("reader")
        same = {"settings": self.settings, "reader": self._reader_identity() if bound else {}}
        resume_state.refuse_other_state(state, same)
        self.seek(state["step"], np.array(state["positions"], dtype=np.int64))
        self._row, begun = state["row"], state["begun"]
        self._count_K = None if begun is None else np.array(begun)
        self._ended = self._step if state["ended"] else None
        self._weights_K = None if state["last"] >= 0 else np.array(state["weights"])
        in_worker = get_worker_info() is not None
        self._published.restore(state["last"], state["plan"], keep_later=in_worker)


def interleave_datasets(
    datasets: Sequence[Any] | Mapping[str, Any],
    probabilities: Sequence[float] | Mapping[str, float] | None = None,
    seed: int | None = None,
    info: Any = None,
    split: Any = None,
    stopping_strategy: str | None = None,
    *,
    batch_rows: int | None = None,
    **options: Any,
) -> MixedDataset:
    """What `datasets.interleave_datasets` gives, with exact shares that can be changed on the way.

    It ends as there, with whole batches; a column that a data set lacks is None, as there.
    `set_weights` changes the shares. A method's `Mixing` sets them itself, and takes one without
    `probabilities`.

    Args:
        datasets: The domains; of a list their names are "0", "1", ....
        probabilities: Shares in the same form, with the sum 1; in turn when absent.
        seed: Seed of the order of rows with `shuffle=True`; 0 when absent.
        info: Not taken: rows are passed on as they are.
        split: Not taken.
        stopping_strategy: "first_exhausted", or "all_exhausted"; `steps` may take its place.
        batch_rows: Rows among which the shares are kept as closely as whole rows can; 1 when
            absent, or one of each data set.
        options: Further arguments of `MixedDataset`.

    Raises:
        InputError: shares and data sets do not fit together, or it is not known where to end.
    """
    if not isinstance(datasets, Mapping):
        if not isinstance(datasets, list | tuple):
            raise InputError(
                f"datasets: {type(datasets).__name__}: give a list of data sets, or a dictionary "
                "of them by domain"
            )
        datasets = {str(i): dataset for i, dataset in enumerate(datasets)}
    if probabilities is not None and not isinstance(probabilities, Mapping):
        if len(probabilities) != len(datasets):
            raise InputError(
                f"probabilities: {len(probabilities)} for {len(datasets)} data sets: give as many"
            )
        probabilities = dict(zip(datasets, probabilities, strict=True))
    if probabilities is not None and abs(sum(probabilities.values()) - 1) > 1e-8:
        raise InputError(f"probabilities: {dict(probabilities)} must sum to 1")
    if info is not None or split is not None:
        raise InputError(
            "info, split: rows are passed on as they are: leave both away, and name the others: "
            'stopping_strategy="all_exhausted"'
        )
    if "steps" in options and stopping_strategy:
        raise InputError("stopping_strategy: `steps` says already where to end: give one of them")
    if "steps" not in options:
        options["ends"] = stopping_strategy or "first_exhausted"
        if options["ends"] not in ENDS:
            raise InputError(
                f"stopping_strategy: {stopping_strategy!r}: shares that hold to the end go with "
                f"{' or '.join(ENDS)}; for any other take datasets.interleave_datasets"
            )
    b = batch_rows or (1 if probabilities else max(1, len(datasets)))
    given: dict[str, Any] = {"weights": probabilities, "seed": seed or 0}
    given |= {"columns": "union", "shuffle": False} | options
    return MixedDataset(datasets, b, **given)
