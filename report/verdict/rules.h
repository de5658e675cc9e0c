// The rules: one small file each under rules/, one row each in the table of verdict.cpp. A rule looks at the evidence
// and answers with a cause, or with nothing when the evidence does not show what its category is about.
#pragma once

#include "report/verdict/edits/fixes.h"

namespace devtrace::report::verdict::rules {

std::optional<Cause> host_memory(const Evidence&);
std::optional<Cause> generator(const Evidence&);
std::optional<Cause> duplicate_device(const Evidence&);
std::optional<Cause> different_collectives(const Evidence&);
std::optional<Cause> rank_missing(const Evidence&);
std::optional<Cause> collective_elsewhere(const Evidence&);
std::optional<Cause> declared_access(const Evidence&);
std::optional<Cause> stream_elsewhere(const Evidence&);
std::optional<Cause> handle_elsewhere(const Evidence&);
std::optional<Cause> missing_set_device(const Evidence&);
std::optional<Cause> unset_variable(const Evidence&);
std::optional<Cause> invalid_access(const Evidence&);
std::optional<Cause> uninitialized_read(const Evidence&);
std::optional<Cause> shared_memory_race(const Evidence&);
std::optional<Cause> cpp_operand_elsewhere(const Evidence&);
std::optional<Cause> cpp_state_not_registered(const Evidence&);
std::optional<Cause> unguarded_kernel(const Evidence&);
std::optional<Cause> unchecked_kernel(const Evidence&);
std::optional<Cause> misstated_copy(const Evidence&);
std::optional<Cause> optimizer_state(const Evidence&);
std::optional<Cause> data_parallel(const Evidence&);
std::optional<Cause> cached_state_elsewhere(const Evidence&);
std::optional<Cause> state_not_registered(const Evidence&);
std::optional<Cause> put_where_no_model_is(const Evidence&);
std::optional<Cause> created_without_device(const Evidence&);
std::optional<Cause> tied_weights(const Evidence&);
std::optional<Cause> inter_process(const Evidence&);
std::optional<Cause> kept_from_before(const Evidence&);
std::optional<Cause> wanted_on_cpu(const Evidence&);
std::optional<Cause> torch_load(const Evidence&);
std::optional<Cause> read_to_several_devices(const Evidence&);
std::optional<Cause> state_of_a_file(const Evidence&);
std::optional<Cause> loaded(const Evidence&);
std::optional<Cause> on_meta(const Evidence&);
std::optional<Cause> missing_device(const Evidence&);
std::optional<Cause> events_of_two_devices(const Evidence&);
std::optional<Cause> gradient_elsewhere(const Evidence&);
std::optional<Cause> module_split(const Evidence&);
std::optional<Cause> input_not_moved(const Evidence&);
std::optional<Cause> left_in_a_container(const Evidence&);
std::optional<Cause> left_of_one_line(const Evidence&);
std::optional<Cause> discarded_move(const Evidence&);
std::optional<Cause> default_device(const Evidence&);
std::optional<Cause> by_the_current_device(const Evidence&);

std::optional<Cause> kept_device(const Evidence&);
std::optional<Cause> device_of_its_class(const Evidence&);
std::optional<Cause> state_of_two_models(const Evidence&);
std::optional<Cause> kept_by_an_object(const Evidence&);
std::optional<Cause> taken_to_be_kept(const Evidence&);
std::optional<Cause> results_apart(const Evidence&);
std::optional<Cause> data_beside_result(const Evidence&);
std::optional<Cause> computed_by_an_object(const Evidence&);
std::optional<Cause> owned_by_an_object(const Evidence&);
std::optional<Cause> made_on_the_default_device(const Evidence&);
std::optional<Cause> made_inside_without_state(const Evidence&);
std::optional<Cause> answered_from_before(const Evidence&);
std::optional<Cause> made_beside_one_that_says(const Evidence&);
std::optional<Cause> made_by_a_call_without_tensors(const Evidence&);
std::optional<Cause> made_without_elements(const Evidence&);
std::optional<Cause> made_for_the_cpu(const Evidence&);
std::optional<Cause> made_of_what_says_no_device(const Evidence&);
std::optional<Cause> in_torchscript(const Evidence&);
std::optional<Cause> given_by_a_call_in_the_line(const Evidence&);
std::optional<Cause> left_beside_a_move(const Evidence& evidence);
std::optional<Cause> taken_to_the_cpu(const Evidence&);
std::optional<Cause> beside_what_is_kept(const Evidence&);
std::optional<Cause> index_of_cpu_table(const Evidence&);
std::optional<Cause> never_moved(const Evidence&);

// `torch.cuda.set_device(x)` with what the rank on its machine is called. Nothing where the line has no such call, or
// stands in another file than the setup, which knows that.
std::optional<Fix> set_device_by_rank(const finding::GroupSetup& setup, const Frame& line);

// Did a running module make it when it was constructed, or does it keep what it gave, in memory that it has not
// registered? Then nobody gave it that. The module's class; empty: no.
std::string_view module_that_made(const Evidence&, const Operand&);

// The running module on several devices whose constructor has made it on one of them, unregistered. Registered, it
// would lie on one device all the same. Null: none.
const finding::RunningModule* spread_owner(const Evidence&, const Operand&);

// The running module, on one device, by whose method it was made on the CPU in a line that says no device. Null: none.
const finding::RunningModule* maker_of(const Evidence& evidence, const Operand&);

// A variable of a caller's, which an object that is no module has as an attribute. No line of its constructor has
// stored that: a method was given it.
bool is_given_to_an_object(const Evidence&, const Operand&);

// Did a function that has called the failing one make it of data that it had? What fails was given it.
bool is_given_data(const Evidence&, const Operand&);

// The step in which a line of the program's brought what stands beside the operand to a device, and not the operand.
// Null: none did.
const finding::Step* left_by(const Operand&);

// Has an object that is no module had it, as an attribute or within one, since before this call?
bool is_owned_by_an_object(const Evidence&, const Operand&);

}  // namespace devtrace::report::verdict::rules
