"""Which of the values that are followed an expression may be, and what a value was made of."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..flow import Flow
from ..nodes import arguments, method_call, path_of
from ..scopes import Scope
from ..values.elements import container_of
from .differentiated import differentiated_attributes
from .entry_names import in_pairs, is_one_of, may_be_one_of, written_keys
from .loss_names import calls_loss, mentions_loss
from .loss_places import place_of
from .loss_terms import detaches, reshaped, shown, summed_dict, summed_names, takes_log, terms
from .loss_values import ANY, Value
from .model_outputs import calls_module, is_no_output
from .read_as_numbers import is_read_as_numbers
from .torch_losses import is_loss_of_torch

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_MOST_GIVEN = 8
_DEEPEST = 2  # lists of what other lists hold
_MOST_STEPS = 4  # from what a model gives to what a loss is given
_IN_TENSORS = ("data", "grad", "shape", "dtype", "device", "T", "requires_grad")


class LossSources(Flow[Value]):
    """Tells what an expression may be at a point of a function, and keeps what values were made of.

    Attributes:
        facts: of the file.
        scope: the function.
        backwards: the values that `backward()` was called on.
        summed: dicts whose values are added up.
        summed_by_name: dicts of which those entries are added up that some names tell.
        derived: what a value was computed from by arithmetic: it hangs on their graphs.
        parts: what a value was made of, by arithmetic or by a function that is given losses.
        outputs: what models gave, from which a loss was computed: `out` of `criterion(out, y)`.
        reads: what the places may be that are read in the expression which a value was bound to.
    """

    def __init__(self, facts: FileFacts, scope: Scope) -> None:
        super().__init__()
        self.facts = facts
        self.scope = scope
        self.backwards: set[Value] = set()
        self._followed: set[str] = set()
        self.summed: set[Value] = set()
        self.summed_by_name: dict[Value, ast.expr] = {}
        self.derived: dict[Value, set[Value]] = {}
        self.parts: dict[Value, set[Value]] = {}
        self.outputs: dict[Value, set[Value]] = {}
        self.reads: dict[Value, frozenset[Value]] = {}
        self._read_places: dict[ast.expr, frozenset[str]] = {}

    def values(self, node: ast.expr, facts: frozenset[Value]) -> frozenset[Value]:
        """What an expression may be, if it is a place, or a call whose result is told by its definition."""
        found: set[Value] = set()
        for term in terms(node):
            place = place_of(term)
            found |= self._entries_of_parameter(term, facts)
            if place is not None:
                found |= {each for each in facts if each.place == place}
                if not found and (part := self.part_of_call(place, term, term, facts)) is not None:
                    same = dataclasses.replace(part, node=part.source or term)  # wherever it is read
                    self.parts.setdefault(same, set()).update(self.parts.get(part, ()))
                    found.add(same)
                if not found and (isinstance(term, ast.Subscript) or self.is_differentiated(place)):
                    found.add(Value(place, self.scope.node))
            elif isinstance(term, ast.Call):
                entry = self.part_of_call("", term, term, facts)
                found.add(entry or Value("", term, term))
            if not found and isinstance(term, ast.Subscript) and self.facts.kind_of(term.value).is_tensor:
                found |= self.values(term.value, facts)  # `per_item[mask]`
            match term:
                case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=int() | str() as key)):
                    found.add(Value("", term, call, (key,)))  # `step(batch)["loss"]`
        return frozenset(found)

    def relate(self, made: Value, value: ast.expr, facts: frozenset[Value]) -> None:
        """What a value was computed from by arithmetic or from losses: it is on its graph, and the reverse."""
        self.note_reads(made, value, facts)
        given = [
            each
            for term in terms(value)
            if isinstance(term, ast.Call) and not detaches(term)
            for each in arguments(term)
            if mentions_loss(path_of(each)) and not is_read_as_numbers(self.facts, term, each)
        ]
        given += [
            each
            for term in terms(value)
            if isinstance(term, ast.Call) and not detaches(term)
            for listed in term.args
            if isinstance(listed, ast.List | ast.Tuple)
            for each in shown(listed)
            if place_of(each) is not None
        ]
        for each in given:
            self.parts.setdefault(made, set()).update(self.values(each, facts))
        for term in terms(value):
            for each in term.args if isinstance(term, ast.Call) and not detaches(term) else ():
                if isinstance(each, ast.Starred):
                    self.parts.setdefault(made, set()).update(_first_parts(each.value, facts))
        for term in terms(value):
            summed = path_of(summed_dict(term))
            if summed is not None:  # the losses of a dict
                whole = {each for each in facts if each.place == summed}
                self.parts.setdefault(made, set()).update(whole)
                names = summed_names(term, summed)
                if names is None:
                    self.summed |= whole
                else:
                    self.summed_by_name |= dict.fromkeys(whole, names)
                entries = {each for each in facts if each.place.startswith(f"{summed}[")}
                self.derived.setdefault(made, set()).update(entries)
                self.parts.setdefault(made, set()).update(entries)
        for term in terms(value):
            self.note_outputs(made, term, facts)
        for term in terms(value):
            values = self.values(term, facts)
            self.derived.setdefault(made, set()).update(values)
            self.parts.setdefault(made, set()).update(values)

    def note_reads(self, made: Value, value: ast.expr, facts: frozenset[Value]) -> None:
        """Notes what the places may be that are read to make a value."""
        places = self.read_places(value)
        found = {each for each in facts if each.place in places} if places else set()
        self.reads[made] = self.reads.get(made, frozenset()) | found

    def read_places(self, value: ast.expr) -> frozenset[str]:
        """The names, attributes and entries that an expression reads."""
        if value not in self._read_places:
            inside = (
                each for each in ast.walk(value) if isinstance(each, ast.Name | ast.Attribute | ast.Subscript)
            )
            self._read_places[value] = frozenset(place for each in inside if (place := place_of(each)) is not None)
        return self._read_places[value]

    def note_outputs(self, made: Value, term: ast.expr, facts: frozenset[Value]) -> None:
        """Notes which outputs of models a call that gives a loss is given."""
        if isinstance(term, ast.Call) and (
            calls_loss(term) or is_loss_of_torch(self.facts, term) or takes_log(term)
        ):
            given = [one for each in arguments(term) if not detaches(each) for one in terms(each)]
            known = (one for each in given for one in self.values(reshaped(each) or each, facts))
            self.outputs.setdefault(made, set()).update(self._outputs_in(known))

    def _outputs_in(self, values: Iterable[Value], depth: int = 0) -> Iterator[Value]:
        """What models gave among some values, or that those were computed from: `out = out.to(device) / T`."""
        for each in values:
            if self._is_output(each):
                yield each
            elif depth < _MOST_STEPS and not each.part and not self.facts.is_without_graph(each.node):
                yield from self._outputs_in(self.derived.get(each, ()), depth + 1)

    def _is_output(self, value: Value) -> bool:
        """Whether a value is what a model gave, or a part of that, with its graph."""
        source = reshaped(value.source)
        if not isinstance(source, ast.Call) or not value.place or self.facts.is_without_graph(source):
            return False
        if value.part and is_no_output(value.name):
            return False
        return calls_module(self.facts, source)

    def part_of_call(self, place: str, at: ast.AST, value: ast.expr, facts: frozenset[Value]) -> Value | None:
        """`found[0]`, `found["loss"]` or `found.loss`, where `found` is what a call gave, or a part of it."""
        of: ast.expr
        key: int | str
        match value:
            case ast.Subscript(value=of, slice=ast.Constant(value=int() | str() as key)):
                pass
            case ast.Attribute(value=ast.Name() as of, attr=key) if key not in _IN_TENSORS:
                pass
            case ast.Call(func=ast.Attribute(value=of, attr="get"), args=[ast.Constant(value=str() as key), *_]):
                pass
            case _:
                return None
        whole = place_of(of)
        held = [each for each in facts if each.place == whole]
        calls = [each.source for each in held if isinstance(each.source, ast.Call)]
        is_one = len({(path_of(each.func) or each, of.part) for each, of in zip(calls, held, strict=False)}) == 1
        if whole is None or len(calls) != len(held) or not is_one:
            return None
        source = min(calls, key=lambda each: (each.lineno, each.col_offset))  # of the same function, on two ways
        part = held[0].part
        made = Value(place, at, source, (*part, key))
        for each in held:
            given_to_call = self.parts.get(each, set())  # of a part of a part of a part: no more
            self.parts.setdefault(made, set()).update(given_to_call if len(given_to_call) <= _MOST_GIVEN else ())
        return made

    def _entries_of_parameter(self, term: ast.expr, facts: frozenset[Value]) -> set[Value]:
        """What a term is an entry of: a parameter, or a dict of which another entry was read.

        `losses[key]` is one, and `loss` of `for key, loss in losses.items()`.
        """
        of: ast.expr | None = None
        if isinstance(term, ast.Subscript):
            of = term.value
        elif isinstance(term, ast.Name) and not any(each.place == term.id for each in facts):
            of = container_of(self.facts, term)
        if isinstance(of, ast.Tuple | ast.List) and len(of.elts) <= _MOST_GIVEN:  # `in zip(names, (ce, kl))`
            return self._of_written(ast.unparse(term), of.elts, facts)
        if of is None and isinstance(term, ast.Name) and (beside := [*in_pairs(self.facts, term)]):
            return self._of_written(term.id, beside, facts)
        if isinstance(term, ast.Name) and (yielded := self._yielded(term, of)) is not None:
            return {yielded}
        name = path_of(of)
        found = {each for each in facts if each.place == name and isinstance(each.node, ast.arg)}
        if isinstance(term, ast.Subscript) and isinstance(term.slice, ast.Name) and name is not None:
            found |= {each for each in facts if (path_of(each.source) or "").startswith(f"{name}[")}
            given = {each for each in facts if each.place == name and isinstance(each.source, ast.Call)}
            found |= given & self.summed  # all of whose entries are added up
            key = container_of(self.facts, term.slice)
            found |= {
                each
                for each in given
                if each in self.summed_by_name and may_be_one_of(self.facts, key, self.summed_by_name[each])
            }
            is_of_all = path_of(method_call(key, "keys") or key) == name
            found |= {
                Value("", each.source, each.source, (*each.part, one))
                for each in (facts if not found and not is_of_all else ())
                if each.place == name and isinstance(each.source, ast.Call)
                for one in written_keys(self.facts, key)
            }
        else:
            is_of_all = name is not None and isinstance(term, ast.Name)
        if not found and is_of_all:  # of a dict that was filled there
            found |= {each for each in facts if each.place.startswith(f"{name}[")}
        if not found:
            found |= {each for each in facts if each.place == name and each in self.summed}
            found |= {
                each
                for each in facts
                if each.place == name
                and each in self.summed_by_name
                and (is_of_all or is_one_of(self.facts, term, self.summed_by_name[each]))
            }
        if is_of_all and not found:
            whole = {(each.source, each.part) for each in facts if each.place == name}
            for source, part in whole:
                if isinstance(source, ast.Call):
                    found.add(Value("", source, source, (*part, ANY)))
            known = (each for each in (*facts, *self.backwards) if each.part and isinstance(each.part[-1], str))
            found |= {each for each in known if (each.source, each.part[:-1]) in whole}
            found |= {each for each in facts if each.place.startswith(f"{name}[")}
        return found

    def is_summed(self, value: Value) -> bool:
        """Whether a value is a dict of which all entries, or those of some names, are added up."""
        return value in self.summed or value in self.summed_by_name

    def _of_written(self, name: str, written: list[ast.expr], facts: frozenset[Value]) -> set[Value]:
        """What the elements of a written list may be that a loop goes through; its own names may be in it."""
        if name in self._followed or len(self._followed) > _DEEPEST:
            return set()
        self._followed.add(name)
        found = {each for one in written for each in self.values(one, facts)}
        self._followed.remove(name)
        return found

    def _yielded(self, name: ast.Name, of: ast.expr | None) -> Value | None:
        """What a generator of the project yields to a loop: `for step, loss in steps(model, loader)`."""
        index = -1
        if of is None:
            bound = [each for each in self.facts.bindings(name) if each.how == "element"]
            of, index = (bound[0].value, bound[0].index) if len(bound) == 1 else (None, -1)
        if not isinstance(of, ast.Call):
            return None
        made_by = self.facts.definition(of.func)
        if made_by is None or not made_by.scope.has(ast.Yield):
            return None
        return Value("", of, of, (ANY,) if index < 0 else (ANY, index))

    def parts_of(self, values: Iterable[Value]) -> set[Value]:
        """All that some values were made of, and what that was made of."""
        found: set[Value] = set()
        waiting = [*values]
        while waiting:
            more = self.parts.get(waiting.pop(), set()) - found
            found |= more
            waiting += more
        return found

    def is_differentiated(self, place: str) -> bool:
        """Whether a place is an attribute of the object, and some method calls `backward()` on it."""
        return place in differentiated_attributes(self.facts, self.scope)


def _first_parts(value: ast.expr, facts: frozenset[Value]) -> Iterator[Value]:
    """The parts of what a call gave that `weigh(*losses[:3])` gets."""
    match value:
        case ast.Subscript(
            value=ast.Name(id=name), slice=ast.Slice(None, ast.Constant(value=int() as count), None)
        ):
            for each in facts:
                if each.place == name and isinstance(each.source, ast.Call) and mentions_loss(name):
                    for index in range(min(count, _MOST_GIVEN)):
                        yield Value(f"{name}[{index}]", each.source, each.source, (*each.part, index))
