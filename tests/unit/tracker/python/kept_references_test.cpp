// What is read of a free-threaded Python, with a Python that only counts.
#include "tracker/python/gil/kept_references.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tracker/python/gil/dict_entries.h"
#include "tracker/python/gil/elements.h"
#include "tracker/python/python_api.h"

namespace devtrace::python {
namespace {

// Objects are addresses of these.
struct Counted {
  int references = 1;
};
bool locked = false;
bool counted_outside = false;
std::vector<Counted> stored;  // one dict: entry 2i is a key, 2i + 1 its value

PyObject* object(Counted& counted) {
  return reinterpret_cast<PyObject*>(&counted);
}

class FreeThreaded : public testing::Test {
 protected:
  FreeThreaded() {
    locked = counted_outside = false;
    stored.assign(80, {});
    api_.Py_IncRef = [](PyObject* one) {
      counted_outside = counted_outside || !locked;
      ++reinterpret_cast<Counted*>(one)->references;
    };
    api_.Py_DecRef = [](PyObject* one) { --reinterpret_cast<Counted*>(one)->references; };
    api_.PyErr_Clear = [] {};
    api_.free_threaded = true;
    api_.PyCriticalSection_Begin = [](PyCriticalSection*, PyObject*) { locked = true; };
    api_.PyCriticalSection_End = [](PyCriticalSection*) { locked = false; };
    api_.PyDict_Next = [](PyObject*, ssize_t* at, PyObject** key, PyObject** value) {
      const auto i = static_cast<size_t>(*at);
      if (2 * i >= stored.size()) return 0;
      *key = object(stored[2 * i]);
      *value = object(stored[2 * i + 1]);
      ++*at;
      return 1;
    };
  }

  Api api_;
  Counted counted_;
};

using KeptReferences = FreeThreaded;

TEST_F(KeptReferences, LetGoOfAtTheEnd) {
  {
    python::KeptReferences kept;
    kept.use(api_);
    { const Ref own(api_, object(counted_)); }
    EXPECT_EQ(counted_.references, 1) << "its __del__ would have run here";
  }
  EXPECT_EQ(counted_.references, 0);
}

TEST_F(KeptReferences, OfAProcessThatEndsAreNotLetGoOf) {
  {
    python::KeptReferences kept;
    kept.use(api_);
    { const Ref own(api_, object(counted_)); }
    kept.leak();
  }
  EXPECT_EQ(counted_.references, 1);
}

TEST_F(KeptReferences, OfSeveralTheFirstKeepsAll) {
  {
    python::KeptReferences outer;
    outer.use(api_);
    {
      python::KeptReferences inner;
      inner.use(api_);
      const Ref own(api_, object(counted_));
    }
    EXPECT_EQ(counted_.references, 1);
  }
  EXPECT_EQ(counted_.references, 0);
}

TEST_F(KeptReferences, UnderAGilNothingIsKept) {
  api_.free_threaded = false;
  python::KeptReferences kept;
  kept.use(api_);
  { const Ref own(api_, object(counted_)); }
  EXPECT_EQ(counted_.references, 0);
}

using DictEntries = FreeThreaded;

TEST_F(DictEntries, AreHeldFromUnderTheDictsOwnLockOn) {
  size_t seen = 0;
  for (python::DictEntries each(api_, object(counted_)); each.next(); ++seen) {
    ASSERT_EQ(each.key(), object(stored[2 * seen]));
    ASSERT_EQ(each.value(), object(stored[2 * seen + 1]));
    EXPECT_FALSE(locked) << "while the caller looks at it";
    EXPECT_EQ(stored[2 * seen].references, 2);
    EXPECT_EQ(stored[2 * seen + 1].references, 2);
  }
  EXPECT_EQ(seen, stored.size() / 2);
  EXPECT_FALSE(counted_outside);
  for (const Counted& one : stored) EXPECT_EQ(one.references, 1);
}

TEST_F(DictEntries, UnderAGilAreBorrowed) {
  api_.free_threaded = false;
  python::DictEntries each(api_, object(counted_));
  ASSERT_TRUE(each.next());
  EXPECT_EQ(stored[0].references, 1);
  EXPECT_FALSE(locked);
}

// A list of `stored`, as long as it says; its class is the list itself.
class Elements : public FreeThreaded {
 protected:
  Elements() {
    length = static_cast<ssize_t>(stored.size());
    api_.PyObject_Type = [](PyObject* one) {
      ++reinterpret_cast<Counted*>(one)->references;
      return one;
    };
    api_.PyType_GetFlags = [](PyObject*) { return 1UL << 25; };
    api_.PyList_Size = [](PyObject*) { return length; };
    api_.PyList_GetItem = [](PyObject*, ssize_t at) { return object(stored[static_cast<size_t>(at)]); };
    api_.PyList_GetItemRef = [](PyObject*, ssize_t at) {
      if (at >= shrinks_to) return static_cast<PyObject*>(nullptr);
      ++stored[static_cast<size_t>(at)].references;
      return object(stored[static_cast<size_t>(at)]);
    };
  }

  static inline ssize_t length = 0, shrinks_to = PTRDIFF_MAX;
};

TEST_F(Elements, AreHeldWithoutAGil) {
  ssize_t seen = 0;
  for (python::Elements each(api_, object(counted_)); each.next(); ++seen) {
    EXPECT_EQ(each.index(), seen);
    EXPECT_EQ(each.value(), object(stored[static_cast<size_t>(seen)]));
    EXPECT_EQ(stored[static_cast<size_t>(seen)].references, 2);
  }
  EXPECT_EQ(seen, length);
  for (const Counted& one : stored) EXPECT_EQ(one.references, 1);
}

TEST_F(Elements, EndWhereAnotherThreadHasCutTheList) {
  shrinks_to = 3;
  ssize_t seen = 0;
  for (python::Elements each(api_, object(counted_)); each.next();) ++seen;
  EXPECT_EQ(seen, 3);
  EXPECT_FALSE(element(api_, object(counted_), 3)) << "its length was told before";
  shrinks_to = PTRDIFF_MAX;
}

TEST_F(Elements, UnderAGilAreBorrowed) {
  api_.free_threaded = false;
  python::Elements each(api_, object(counted_), 1);
  ASSERT_TRUE(each.next());
  EXPECT_EQ(stored[0].references, 1);
  EXPECT_FALSE(each.next()) << "no more were asked for";
}

}  // namespace
}  // namespace devtrace::python
