"""The kinds of edits: one module each, one line each in the table."""

from kinds import (
    any_expression,
    at_use,
    bound_callables,
    caches,
    checkpoints,
    current_device,
    device_maps,
    dropped_move,
    generators,
    optimizers,
    registration,
    reported_fix,
    where_made,
    whole_modules,
)

MAKERS = [
    reported_fix.candidates,
    dropped_move.candidates,
    registration.candidates,
    at_use.candidates,
    at_use.loops,
    where_made.candidates,
    whole_modules.candidates,
    checkpoints.candidates,
    current_device.candidates,
    device_maps.candidates,
    bound_callables.candidates,
    generators.candidates,
    optimizers.candidates,
    caches.candidates,
    any_expression.candidates,
]

# What kind of mistake an edit repairs, as the verdict's categories; "": it makes the line run, whatever the cause.
CATEGORIES = {
    "reported-fix": "",
    "move-at-use": "",
    "move-result": "",
    "redirect-move": "",
    "device-at-creation": "created-without-device",
    "register-buffer": "state-not-registered",
    "register-modules": "state-not-registered",
    "keep-moved": "input-not-moved",
    "move-module": "module-split-or-hook-missing",
    "map-location": "",
    "set-device": "default-or-current-device",
    "device-guard": "unguarded-kernel",
    "no-split": "module-split-or-hook-missing",
    "device-map": "module-split-or-hook-missing",
    "call-through-self": "data-parallel",
    "generator-device": "generator",
    "optimizer-state": "optimizer-state",
    "cache-key": "cached-state-elsewhere",
}
