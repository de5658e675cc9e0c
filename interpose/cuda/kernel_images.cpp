#include "interpose/cuda/kernel_images.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "binary/elf/loaded_objects.h"
#include "tracker/base/arena.h"
#include "tracker/base/spinlock.h"

namespace devtrace::interpose::kernel_images {
namespace {

using binary::View;

// ---- Registered at load: only appended to, and looked through from the newest when somebody asks.

struct FatBinary {
  void** handle;
  const void* data;  // null once it is gone
  FatBinary* older;
};
struct Registered {
  const void* stub;
  const char* name;
  FatBinary* from;
};
struct Chunk {
  Chunk* older;
  size_t used;
  Registered entries[680];
};

constinit SpinLock registered_lock;
constinit Arena arena;
constinit FatBinary* fat_binaries = nullptr;  // the newest; those that are gone are taken out
constinit Chunk* newest = nullptr;

FatBinary* fat_binary_of(void** handle) {
  FatBinary* each = fat_binaries;
  while (each && each->handle != handle) each = each->older;
  return each;
}

// ---- Loaded by the program.

constexpr size_t kMostCopied = size_t{256} << 20;     // bytes of one image
constexpr size_t kMostCopiedInAll = size_t{1} << 30;  // of all that are loaded at a time

struct Image {
  const void* in_object = nullptr;  // in a loaded object, as long as that stays
  std::vector<uint8_t> copy;
  std::string path;
  ~Image() { copied.fetch_sub(copy.size(), std::memory_order_relaxed); }
  static inline std::atomic<size_t> copied{0};
};
struct Kernel {
  std::shared_ptr<const Image> image;
  const void* stub = nullptr;  // of one that was registered
  std::string name;
};
struct Loaded {
  std::unordered_map<const void*, std::shared_ptr<const Image>> containers;
  std::unordered_map<const void*, Kernel> kernels;
};
constinit SpinLock loaded_lock;
constinit Loaded* loaded_now = nullptr;  // leaked: libraries are unloaded after static destructors

Loaded& now() {
  if (!loaded_now) loaded_now = new Loaded;
  return *loaded_now;
}

// Bytes from the address to the end of the loaded object it lies in; 0 when in none.
size_t bytes_in_object(const void* address) {
  size_t bytes = 0;
  elf::for_each_object([&](const elf::Object& object) {
    bytes = object.bytes_behind(reinterpret_cast<uintptr_t>(address));
    return bytes != 0;
  });
  return bytes;
}

// A span in a loaded object, which must still be there.
View span_in_object(const void* data) {
  const size_t most = data ? bytes_in_object(data) : 0;
  if (most == 0) return {};
  const View image = device::image_at(data, most);
  // The wrapper's container may be in another segment.
  return bytes_in_object(image.data) >= image.size ? image : View{};
}

std::vector<uint8_t> file_bytes(const std::string& path) {
  std::vector<uint8_t> bytes;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return bytes;
  struct stat facts {};
  if (::fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0 &&
      static_cast<size_t>(facts.st_size) <= kMostCopied) {
    bytes.resize(static_cast<size_t>(facts.st_size));
    size_t done = 0;
    for (ssize_t got = 1; done < bytes.size() && got > 0; done += got > 0 ? static_cast<size_t>(got) : 0)
      got = ::read(file, bytes.data() + done, bytes.size() - done);
    bytes.resize(done);
  }
  ::close(file);
  return bytes;
}

Code code_of(const std::shared_ptr<const Image>& image) {
  if (!image) return {};
  if (image->in_object) return {span_in_object(image->in_object), {}, {}};
  if (image->path.empty()) return {device::image_at(image->copy.data(), image->copy.size()), {}, image};
  auto read = std::make_shared<std::vector<uint8_t>>(file_bytes(image->path));
  return {device::image_at(read->data(), read->size()), {}, read};
}

void keep(const void* container, std::shared_ptr<const Image> image) {
  const std::lock_guard hold(loaded_lock);
  now().containers[container] = std::move(image);
}

// What hooks call must not throw, and leaves errno alone. Out of memory: the image's kernels stay unknown.
template <class Work>
void quietly(const Work& work) noexcept {
  const int saved = errno;
  try {
    work();
  } catch (...) {
  }
  errno = saved;
}

}  // namespace

void fat_binary(void** handle, const void* data) {
  auto* const made = arena.make<FatBinary>(FatBinary{handle, data, nullptr});
  if (!made) return;
  const std::lock_guard hold(registered_lock);
  made->older = fat_binaries;
  fat_binaries = made;
}

void kernel_of_fat_binary(void** handle, const void* stub, const char* name) {
  const std::lock_guard hold(registered_lock);
  FatBinary* const from = fat_binary_of(handle);
  if (!from) return;
  if (!newest || newest->used == std::size(newest->entries)) {
    auto* const fresh = static_cast<Chunk*>(arena.allocate(sizeof(Chunk), alignof(Chunk)));
    if (!fresh) return;
    fresh->older = newest;
    newest = fresh;
  }
  newest->entries[newest->used++] = {stub, name, from};
}

void fat_binary_gone(void** handle) {
  const std::lock_guard hold(registered_lock);
  for (FatBinary** each = &fat_binaries; *each; each = &(*each)->older) {
    if ((*each)->handle != handle) continue;
    (*each)->data = nullptr;
    *each = (*each)->older;
    return;
  }
}

void loaded(const void* container, const void* data) {
  quietly([&] {
    auto image = std::make_shared<Image>();
    const View span = device::image_at(data);
    if (span.size == 0) return;
    if (bytes_in_object(span.data) >= span.size) {
      image->in_object = span.data;
    } else {
      if (span.size > kMostCopied) return;
      if (Image::copied.load(std::memory_order_relaxed) + span.size > kMostCopiedInAll) return;
      image->copy.assign(span.data, span.data + span.size);
      Image::copied.fetch_add(span.size, std::memory_order_relaxed);
    }
    keep(container, std::move(image));
  });
}

void loaded_file(const void* container, const char* path) {
  quietly([&] {
    auto image = std::make_shared<Image>();
    image->path = path;
    keep(container, std::move(image));
  });
}

void same_image(const void* container, const void* as) {
  quietly([&] {
    const std::lock_guard hold(loaded_lock);
    if (const auto found = now().containers.find(as); found != now().containers.end()) {
      const auto image = found->second;
      now().containers[container] = image;
    }
  });
}

void unloaded(const void* container) {
  quietly([&] {
    std::shared_ptr<const Image> image;  // freed without the lock
    const std::lock_guard hold(loaded_lock);
    Loaded& all = now();
    const auto found = all.containers.find(container);
    if (found == all.containers.end()) return;
    image = found->second;
    all.containers.erase(found);
    std::erase_if(all.kernels, [&](const auto& entry) { return entry.second.image == image; });
  });
}

void kernel_of(const void* function, const void* container, const char* name) {
  quietly([&] {
    const std::lock_guard hold(loaded_lock);
    Loaded& all = now();
    if (const auto found = all.containers.find(container); found != all.containers.end())
      all.kernels[function] = {found->second, nullptr, name ? name : ""};
  });
}

void same_kernel(const void* function, const void* as) {
  quietly([&] {
    const std::lock_guard hold(loaded_lock);
    Loaded& all = now();
    if (const auto found = all.kernels.find(as); found != all.kernels.end()) {
      const Kernel kernel = found->second;
      all.kernels[function] = kernel;
    } else {
      all.kernels[function] = {nullptr, as, {}};
    }
  });
}

Code code_of(const void* function) {
  Kernel kernel;
  {
    const std::lock_guard hold(loaded_lock);
    if (const auto found = now().kernels.find(function); found != now().kernels.end()) kernel = found->second;
  }
  if (kernel.image) {
    Code code = code_of(kernel.image);
    code.name = kernel.name;
    return code;
  }
  const void* const stub = kernel.stub ? kernel.stub : function;
  const void* data = nullptr;
  const char* name = nullptr;
  {
    const std::lock_guard hold(registered_lock);
    for (const Chunk* chunk = newest; chunk && !data; chunk = chunk->older) {
      for (size_t i = chunk->used; i-- > 0 && !data;) {
        if (chunk->entries[i].stub != stub || !chunk->entries[i].from->data) continue;
        data = chunk->entries[i].from->data;
        name = chunk->entries[i].name;
      }
    }
  }
  return data ? Code{span_in_object(data), name, {}} : Code{};
}

void before_fork() {
  registered_lock.lock();
  loaded_lock.lock();
}

void after_fork() {
  loaded_lock.unlock();
  registered_lock.unlock();
}

}  // namespace devtrace::interpose::kernel_images
