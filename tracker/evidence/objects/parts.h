// What a container or an instance holds: one way to go through them, and to write how each is reached.
#pragma once

#include <cstdint>
#include <string>

#include "tracker/python/gil/dict_entries.h"
#include "tracker/python/gil/elements.h"
#include "tracker/python/python_api.h"

namespace devtrace::evidence {

// Lives until the next one is asked for.
struct Part {
  PyObject* value;
  PyObject* key = nullptr;  // of a dict; an attribute's name
  ssize_t index = 0;        // without a key
  bool attribute = false;

  // `3`, `ids`; empty for a key that is neither a str nor a number.
  std::string name(const python::Api& api) const;
  // What code writes behind the holder: `[3]`, `["ids"]`, `.weight`; `[…]` for another key.
  std::string step(const python::Api& api) const;
};

// Of a dict that somebody holds, or of an instance's attributes; nullptr: none.
template <class Visit>
void entries_of(const python::Api& api, PyObject* dict, bool attributes, const Visit& visit,
                ssize_t most = PTRDIFF_MAX) {
  for (python::DictEntries each(api, dict); each.next() && most-- > 0;)
    visit(Part{each.value(), each.key(), 0, attributes});
}

// A deque's elements as a list of ours; empty for anything else, classes below deque among it.
python::Ref elements_of_deque(const python::Api& api, PyObject* object);

// Of a list, tuple or deque at most as many elements, of a dict all entries; of anything else the instance's
// attributes, where these are asked for.
template <class Visit>
void parts_of(const python::Api& api, PyObject* object, ssize_t most_elements, bool attributes, const Visit& visit) {
  switch (python::shape_of(api, object)) {
    case python::Shape::list:
    case python::Shape::tuple:
      for (python::Elements each(api, object, most_elements); each.next();)
        visit(Part{each.value(), nullptr, each.index()});
      break;
    case python::Shape::dict:
      entries_of(api, object, false, visit);
      break;
    case python::Shape::unicode:
      break;
    case python::Shape::other:
      if (const python::Ref list = elements_of_deque(api, object))
        for (python::Elements each(api, list.get(), most_elements); each.next();)
          visit(Part{each.value(), nullptr, each.index()});
      else if (const python::Ref dict = attributes ? python::instance_dict(api, object) : python::Ref())
        entries_of(api, dict.get(), true, visit);
      break;
  }
}

}  // namespace devtrace::evidence
