"""Another way to deal a model out to devices than the program says, for `devtrace place`: DEVTRACE_SIM_DEVICE_MAP names it, or has it as JSON.

With DEVTRACE_SIM_TENSOR_PARALLEL each layer of transformers' is split among ranks instead.

What accelerate and transformers are asked for is changed where they are asked: their functions keep their identity, as programs have imported them by name.
The map that came of it is left beside the process's summary.
"""

import functools
import json
import os
import threading

from . import imported

_inside = threading.local()  # a function of theirs that uses another one


_installed = False


def install():
    global _installed
    if not _installed and (wanted() or tensor_parallel()):
        _installed = True
        imported.change({"accelerate.big_modeling": change_accelerate, "transformers.modeling_utils": change_transformers})


def wanted():
    text = os.environ.get("DEVTRACE_SIM_DEVICE_MAP", "")
    return json.loads(text) if text.startswith("{") else text


def tensor_parallel():
    return os.environ.get("DEVTRACE_SIM_TENSOR_PARALLEL") == "1"


def change_accelerate(module):
    if tensor_parallel():
        return
    replace(module, "dispatch_model", with_map(lambda model: chosen(model, wanted())))
    replace(module, "load_checkpoint_and_dispatch", with_map(lambda model: wanted()))


def change_transformers(module):
    real = module.PreTrainedModel.from_pretrained.__func__

    @functools.wraps(real)
    def from_pretrained(cls, *arguments, **options):
        if getattr(_inside, "yes", False) or (options.get("device_map") is None and not tensor_parallel()):
            return real(cls, *arguments, **options)
        options.pop("max_memory", None)
        if tensor_parallel():
            options.pop("device_map", None)
            return within(real, cls, *arguments, **{**options, "tp_plan": "auto"})
        options["device_map"] = wanted()
        model = within(real, cls, *arguments, **options)
        leave(model, getattr(model, "hf_device_map", None))
        return model

    module.PreTrainedModel.from_pretrained = classmethod(from_pretrained)


def within(function, *arguments, **options):
    _inside.yes = True
    try:
        return function(*arguments, **options)
    finally:
        _inside.yes = False


def with_map(make):
    """Calls the function with the map that `make(model)` gives instead of the program's."""

    def around(real, model, *arguments, **options):
        if getattr(_inside, "yes", False):
            return real(model, *arguments, **options)
        import inspect

        call = inspect.signature(real).bind(model, *arguments, **options)
        if call.arguments.get("device_map") is not None:
            call.arguments["device_map"] = make(model)
            call.arguments.pop("max_memory", None)
        result = within(real, *call.args, **call.kwargs)
        leave(result, getattr(result, "hf_device_map", None))
        return result

    return around


def replace(module, name, around):
    """Another body for the same function."""
    import types

    function = getattr(module, name)
    real = types.FunctionType(function.__code__, function.__globals__, name, function.__defaults__, function.__closure__)
    real.__kwdefaults__ = function.__kwdefaults__
    real.__annotations__ = function.__annotations__
    key = f"_devtrace_{name}"
    function.__globals__[key] = functools.partial(around, real)
    made = {}
    exec(f"def {name}(*arguments, **options):\n    return {key}(*arguments, **options)\n", made)
    function.__code__, function.__defaults__, function.__kwdefaults__ = made[name].__code__, None, None


def parts_that_stay_whole(model):
    return list(getattr(model, "_no_split_modules", None) or [])


def chosen(model, way):
    from accelerate import infer_auto_device_map
    from accelerate.utils import get_balanced_memory, get_max_memory

    if isinstance(way, dict):
        return way
    whole = parts_that_stay_whole(model)
    limits = get_max_memory() if way == "sequential" else get_balanced_memory(model, None, whole, low_zero=way == "balanced_low_0")
    return infer_auto_device_map(model, limits, no_split_module_classes=whole)


def leave(model, places):
    folder = os.environ.get("DEVTRACE_SIM_SUMMARY")
    if not folder or not places:
        return
    weights = {}
    for tensor in [*model.parameters(), *model.buffers()]:
        if tensor.device.type == "cuda":
            weights[tensor.device.index] = weights.get(tensor.device.index, 0) + tensor.nbytes
    try:
        limits = limits_of(model, places, weights)
    except Exception:  # another release of accelerate's: the map alone is told
        limits = None
    told = {"device_map": {name: str(place) for name, place in places.items()}, "max_memory": limits, "blocks": blocks_of(model)}
    path = os.path.join(folder, f"device-map-{os.getpid()}.json")
    with open(f"{path}.part", "w", encoding="utf-8") as file:
        json.dump(told, file)
    os.replace(f"{path}.part", path)


def limits_of(model, places, weights):
    """With which accelerate comes to the same map by itself; None: it does not. It leaves room for the largest layer on the first device."""
    from accelerate import infer_auto_device_map

    whole = parts_that_stay_whole(model)
    largest = max((sum(p.nbytes for p in part.parameters()) for part in model.modules() if part is not model and is_layer(part, whole)), default=0)
    limits = {device: -(-size // 2**20) + (-(-largest // 2**20) if device == 0 else 0) for device, size in sorted(weights.items())}
    same = infer_auto_device_map(model, {device: f"{size}MiB" for device, size in limits.items()}, no_split_module_classes=whole)
    return limits if all(expanded(name, same) == expanded(name, places) for name, _ in model.named_parameters()) else None


def blocks_of(model):
    """What stays whole and what lies between, in the model's order, each with the bytes of its parameters; of a shared one the first has them."""
    whole, found, seen = parts_that_stay_whole(model), [], set()

    def bytes_of(tensors):
        fresh = {id(each): each.nbytes for each in tensors if id(each) not in seen}
        seen.update(fresh)
        return sum(fresh.values())

    def enter(part, path):
        if part is not model and is_layer(part, whole):
            found.append((path, bytes_of(part.parameters())))
            return
        between = [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]
        found.extend((f"{path}.{name}".lstrip("."), bytes_of([each])) for name, each in between)
        for name, child in part.named_children():
            enter(child, f"{path}.{name}".lstrip("."))

    enter(model, "")
    return found


def is_layer(part, whole):
    return type(part).__name__ in whole or not any(True for _ in part.children())


def expanded(name, places):
    """Where a map by module puts a parameter."""
    while name not in places and name:
        name = name.rpartition(".")[0]
    place = places.get(name)
    return str(place).removeprefix("cuda:")
