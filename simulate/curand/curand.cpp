// cuRAND's host interface: true values, drawn when the stream comes to it. XORWOW's states and the order in which a
// device hands its draws out are not NVIDIA's, so a seed repeats the numbers of a rehearsal, not those of hardware.
#include <memory>
#include <mutex>

#include "simulate/common/library.h"
#include "simulate/curand/distributions.h"
#include "simulate/curand/engines.h"
#pragma GCC visibility push(default)
#include <curand.h>
#pragma GCC visibility pop

namespace devtrace::simulate::curand {
namespace {

// What is drawn from; a captured graph keeps it, and draws on at each replay.
struct Source {
  std::mutex mutex;
  Engine engine;
};

struct Generator {
  bool host = false;
  curandRngType_t type = CURAND_RNG_PSEUDO_XORWOW;
  CUstream stream = nullptr;
  uint64_t seed = 0, offset = 0;
  std::shared_ptr<Source> source;  // null: to be made of seed and offset
};

Generator* generator_of(curandGenerator_t handle) {
  return library::alive(handle) ? static_cast<Generator*>(library::object(handle)->pointers[0]) : nullptr;
}

Engine engine_of(curandRngType_t type, uint64_t seed) {
  if (type == CURAND_RNG_PSEUDO_PHILOX4_32_10) return Philox(seed);
  if (type == CURAND_RNG_PSEUDO_MT19937 || type == CURAND_RNG_PSEUDO_MTGP32) return Mersenne(seed);
  if (type == CURAND_RNG_PSEUDO_MRG32K3A) return Mrg(seed);
  return Xorwow(seed);
}

bool is_simulated(curandRngType_t type) {
  switch (type) {
    case CURAND_RNG_PSEUDO_DEFAULT:
    case CURAND_RNG_PSEUDO_XORWOW:
    case CURAND_RNG_PSEUDO_PHILOX4_32_10:
    case CURAND_RNG_PSEUDO_MT19937:
    case CURAND_RNG_PSEUDO_MTGP32:
    case CURAND_RNG_PSEUDO_MRG32K3A:
      return true;
    default:
      return false;
  }
}

extern "C" int devtrace_sim_unsupported(const char* name, char* said, int code);

curandStatus_t make(curandGenerator_t* handle, curandRngType_t type, bool host) {
  static char said;
  if (!handle) return CURAND_STATUS_OUT_OF_RANGE;
  if (!is_simulated(type))
    return static_cast<curandStatus_t>(
        devtrace_sim_unsupported("cuRAND's quasirandom generators", &said, CURAND_STATUS_TYPE_ERROR));
  library::Object* const object = library::make();
  if (!object) return CURAND_STATUS_INITIALIZATION_FAILED;
  object->pointers[0] = new Generator{host, type, nullptr, 0, 0, nullptr};
  *handle = reinterpret_cast<curandGenerator_t>(object);
  return CURAND_STATUS_SUCCESS;
}

void start(Generator& g) {
  if (g.source) return;
  g.source = std::make_shared<Source>();
  g.source->engine = engine_of(g.type, g.seed);
  std::visit([&](auto& engine) { engine.skip(g.offset); }, g.source->engine);
}

// `fill(bits)` draws; it runs when the stream comes to it, and again at each replay of a graph.
template <class Fill>
curandStatus_t generate(const char* name, curandGenerator_t handle, void* out, Fill fill) {
  Generator* const g = generator_of(handle);
  if (!g) return CURAND_STATUS_NOT_INITIALIZED;
  if (!out) return CURAND_STATUS_OUT_OF_RANGE;
  start(*g);
  auto draw = [fill, source = g->source] {
    std::lock_guard lock(source->mutex);
    std::visit(fill, source->engine);
  };
  if (g->host) {
    draw();
    return CURAND_STATUS_SUCCESS;
  }
  using Draw = decltype(draw);
  const CUresult result = devtrace_sim_library_compute(
      name, g->stream, out, [](void* data) { (*static_cast<Draw*>(data))(); },
      [](void* data) { delete static_cast<Draw*>(data); }, new Draw(std::move(draw)));
  return result ? CURAND_STATUS_LAUNCH_FAILURE : CURAND_STATUS_SUCCESS;
}

template <class T>
curandStatus_t uniforms(const char* name, curandGenerator_t g, T* out, size_t count) {
  return generate(name, g, out, [=](auto& bits) {
    for (size_t i = 0; i < count; ++i) out[i] = uniform<T>(bits);
  });
}

// `exponential`: e to the power of it.
template <class T>
curandStatus_t normals(const char* name, curandGenerator_t g, T* out, size_t count, T mean, T deviation,
                       bool exponential) {
  if (count % 2) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  return generate(name, g, out, [=](auto& bits) {
    normal(bits, out, count, mean, deviation);
    for (size_t i = 0; exponential && i < count; ++i) out[i] = std::exp(out[i]);
  });
}

template <class Distribution>
curandStatus_t whole_numbers(const char* name, curandGenerator_t g, unsigned* out, size_t count, Distribution of) {
  return generate(name, g, out, [=](auto& bits) {
    Distribution drawn = of;
    Standard<std::remove_reference_t<decltype(bits)>> standard{bits};
    for (size_t i = 0; i < count; ++i) out[i] = static_cast<unsigned>(drawn(standard));
  });
}

template <class Change>
curandStatus_t change(curandGenerator_t handle, Change to) {
  Generator* const g = generator_of(handle);
  if (!g) return CURAND_STATUS_NOT_INITIALIZED;
  to(*g);
  return CURAND_STATUS_SUCCESS;
}

}  // namespace
}  // namespace devtrace::simulate::curand

namespace sim = devtrace::simulate::curand;

extern "C" {

curandStatus_t CURANDAPI curandCreateGenerator(curandGenerator_t* generator, curandRngType_t type) {
  return sim::make(generator, type, false);
}
curandStatus_t CURANDAPI curandCreateGeneratorHost(curandGenerator_t* generator, curandRngType_t type) {
  return sim::make(generator, type, true);
}
curandStatus_t CURANDAPI curandDestroyGenerator(curandGenerator_t handle) {
  const sim::Generator* const g = sim::generator_of(handle);
  if (!g || !devtrace::simulate::library::destroy(handle)) return CURAND_STATUS_NOT_INITIALIZED;
  delete g;
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t CURANDAPI curandGetVersion(int* version) {
  if (!version) return CURAND_STATUS_OUT_OF_RANGE;
  *version = CURAND_VERSION;
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t CURANDAPI curandGetProperty(libraryPropertyType type, int* value) {
  if (!value || type > PATCH_LEVEL) return CURAND_STATUS_OUT_OF_RANGE;
  *value = type == MAJOR_VERSION ? CURAND_VER_MAJOR : type == MINOR_VERSION ? CURAND_VER_MINOR : CURAND_VER_PATCH;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t CURANDAPI curandSetStream(curandGenerator_t generator, cudaStream_t stream) {
  return sim::change(generator, [&](sim::Generator& g) { g.stream = stream; });
}
curandStatus_t CURANDAPI curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator, unsigned long long seed) {
  return sim::change(generator, [&](sim::Generator& g) { g.seed = seed, g.source.reset(); });
}
curandStatus_t CURANDAPI curandSetGeneratorOffset(curandGenerator_t generator, unsigned long long offset) {
  const sim::Generator* const g = sim::generator_of(generator);
  if (g && (g->type == CURAND_RNG_PSEUDO_MT19937 || g->type == CURAND_RNG_PSEUDO_MTGP32))
    return CURAND_STATUS_TYPE_ERROR;
  return sim::change(generator, [&](sim::Generator& g) { g.offset = offset, g.source.reset(); });
}
curandStatus_t CURANDAPI curandSetGeneratorOrdering(curandGenerator_t generator, curandOrdering_t) {
  return sim::change(generator, [](sim::Generator&) {});
}
curandStatus_t CURANDAPI curandSetQuasiRandomGeneratorDimensions(curandGenerator_t generator, unsigned int) {
  return sim::generator_of(generator) ? CURAND_STATUS_TYPE_ERROR : CURAND_STATUS_NOT_INITIALIZED;
}
curandStatus_t CURANDAPI curandGenerateSeeds(curandGenerator_t generator) {
  return sim::change(generator, sim::start);
}

curandStatus_t CURANDAPI curandGenerate(curandGenerator_t generator, unsigned int* out, size_t count) {
  return sim::generate("curandGenerate", generator, out, [=](auto& bits) {
    for (size_t i = 0; i < count; ++i) out[i] = bits();
  });
}
// Of 64-bit quasirandom generators only.
curandStatus_t CURANDAPI curandGenerateLongLong(curandGenerator_t generator, unsigned long long*, size_t) {
  return sim::generator_of(generator) ? CURAND_STATUS_TYPE_ERROR : CURAND_STATUS_NOT_INITIALIZED;
}
curandStatus_t CURANDAPI curandGenerateUniform(curandGenerator_t generator, float* out, size_t count) {
  return sim::uniforms("curandGenerateUniform", generator, out, count);
}
curandStatus_t CURANDAPI curandGenerateUniformDouble(curandGenerator_t generator, double* out, size_t count) {
  return sim::uniforms("curandGenerateUniformDouble", generator, out, count);
}
curandStatus_t CURANDAPI curandGenerateNormal(curandGenerator_t generator, float* out, size_t count, float mean,
                                              float deviation) {
  return sim::normals("curandGenerateNormal", generator, out, count, mean, deviation, false);
}
curandStatus_t CURANDAPI curandGenerateNormalDouble(curandGenerator_t generator, double* out, size_t count, double mean,
                                                    double deviation) {
  return sim::normals("curandGenerateNormalDouble", generator, out, count, mean, deviation, false);
}
curandStatus_t CURANDAPI curandGenerateLogNormal(curandGenerator_t generator, float* out, size_t count, float mean,
                                                 float deviation) {
  return sim::normals("curandGenerateLogNormal", generator, out, count, mean, deviation, true);
}
curandStatus_t CURANDAPI curandGenerateLogNormalDouble(curandGenerator_t generator, double* out, size_t count,
                                                       double mean, double deviation) {
  return sim::normals("curandGenerateLogNormalDouble", generator, out, count, mean, deviation, true);
}
curandStatus_t CURANDAPI curandGeneratePoisson(curandGenerator_t generator, unsigned int* out, size_t count,
                                               double lambda) {
  if (!(lambda > 0) || lambda > 400000) return CURAND_STATUS_OUT_OF_RANGE;
  return sim::whole_numbers("curandGeneratePoisson", generator, out, count,
                            std::poisson_distribution<unsigned>(lambda));
}
curandStatus_t CURANDAPI curandGeneratePoissonMethod(curandGenerator_t generator, unsigned int* out, size_t count,
                                                     double lambda, curandMethod_t) {
  return curandGeneratePoisson(generator, out, count, lambda);
}

}  // extern "C"
