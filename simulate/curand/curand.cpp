// cuRAND's host interface: true values, drawn when the stream comes to it. XORWOW's states and the order in which a
// device hands its draws out are not NVIDIA's, so a seed repeats the numbers of a rehearsal, not those of hardware.
// Sobol's sequences are the published ones, but where they are scrambled.
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>

#include "simulate/common/library.h"
#include "simulate/curand/distributions.h"
#include "simulate/curand/engines.h"
#include "simulate/curand/quasirandom.h"
#include "simulate/curand/sobol.h"
#pragma GCC visibility push(default)
#include <curand.h>
#pragma GCC visibility pop

namespace devtrace::simulate::curand {
namespace {

// What is drawn from; a captured graph keeps it, and draws on at each replay.
struct Source {
  std::mutex mutex;
  Engine engine;
  std::optional<Sobol> sobol;  // it is no engine, then
};

struct Generator {
  bool host = false;
  curandRngType_t type = CURAND_RNG_PSEUDO_XORWOW;
  CUstream stream = nullptr;
  uint64_t seed = 0, offset = 0;
  unsigned dimensions = 1;         // of quasirandom numbers
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

// Of pseudorandom numbers: none. CURAND_RNG_QUASI_DEFAULT is 32 bits.
std::optional<Sobol> sobol_of(curandRngType_t type) {
  switch (type) {
    case CURAND_RNG_QUASI_DEFAULT:
    case CURAND_RNG_QUASI_SOBOL32:
      return Sobol(32, false);
    case CURAND_RNG_QUASI_SCRAMBLED_SOBOL32:
      return Sobol(32, true);
    case CURAND_RNG_QUASI_SOBOL64:
      return Sobol(64, false);
    case CURAND_RNG_QUASI_SCRAMBLED_SOBOL64:
      return Sobol(64, true);
    default:
      return std::nullopt;
  }
}

bool is_pseudorandom(curandRngType_t type) {
  return type == CURAND_RNG_PSEUDO_DEFAULT ||
         (type >= CURAND_RNG_PSEUDO_XORWOW && type <= CURAND_RNG_PSEUDO_PHILOX4_32_10);
}

extern "C" int devtrace_sim_unsupported(const char* name, char* said, int code);

curandStatus_t make(curandGenerator_t* handle, curandRngType_t type, bool host) {
  if (!handle) return CURAND_STATUS_OUT_OF_RANGE;
  if (!is_pseudorandom(type) && !sobol_of(type)) return CURAND_STATUS_TYPE_ERROR;
  library::Object* const object = library::make();
  if (!object) return CURAND_STATUS_INITIALIZATION_FAILED;
  object->pointers[0] = new Generator{host, type, nullptr, 0, 0, 1, nullptr};
  *handle = reinterpret_cast<curandGenerator_t>(object);
  return CURAND_STATUS_SUCCESS;
}

void start(Generator& g) {
  if (g.source) return;
  g.source = std::make_shared<Source>();
  if ((g.source->sobol = sobol_of(g.type))) {
    g.source->sobol->set_dimensions(g.dimensions);
    g.source->sobol->seek(g.offset);
    return;
  }
  g.source->engine = engine_of(g.type, g.seed);
  std::visit([&](auto& engine) { engine.skip(g.offset); }, g.source->engine);
}

// `draw(source)` runs when the stream comes to it, and again at each replay of a graph.
template <class FromSource>
curandStatus_t enqueue(const char* name, Generator* g, void* out, FromSource from) {
  if (!out) return CURAND_STATUS_OUT_OF_RANGE;
  start(*g);
  auto draw = [from, source = g->source] {
    std::lock_guard lock(source->mutex);
    from(*source);
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

// `fill(bits)` draws pseudorandom numbers, `of(word, bits)` makes one of a quasirandom word.
template <class T, class Fill, class Of>
curandStatus_t generate(const char* name, curandGenerator_t handle, T* out, size_t count, Fill fill, Of of) {
  Generator* const g = generator_of(handle);
  if (!g) return CURAND_STATUS_NOT_INITIALIZED;
  if (!sobol_of(g->type)) return enqueue(name, g, out, [fill](Source& source) { std::visit(fill, source.engine); });
  if (count % g->dimensions) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  return enqueue(name, g, out, [=](Source& source) {
    Sobol& sobol = *source.sobol;
    sobol.draw(count / sobol.dimensions(), [&](size_t i, uint64_t word) { out[i] = of(word, sobol.bits()); });
  });
}

template <class T>
curandStatus_t uniforms(const char* name, curandGenerator_t g, T* out, size_t count) {
  const auto fill = [=](auto& bits) {
    for (size_t i = 0; i < count; ++i) out[i] = uniform<T>(bits);
  };
  return generate(name, g, out, count, fill, quasi_uniform<T>);
}

// `exponential`: e to the power of it.
template <class T>
curandStatus_t normals(const char* name, curandGenerator_t g, T* out, size_t count, T mean, T deviation,
                       bool exponential) {
  const Generator* const known = generator_of(g);
  if (known && is_pseudorandom(known->type) && count % 2) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  const auto fill = [=](auto& bits) {
    normal(bits, out, count, mean, deviation);
    for (size_t i = 0; exponential && i < count; ++i) out[i] = std::exp(out[i]);
  };
  return generate(name, g, out, count, fill, [=](uint64_t word, unsigned bits) {
    const T value = mean + deviation * quasi_normal<T>(word, bits);
    return exponential ? std::exp(value) : value;
  });
}

template <class Change>
curandStatus_t change(curandGenerator_t handle, Change to) {
  Generator* const g = generator_of(handle);
  if (!g) return CURAND_STATUS_NOT_INITIALIZED;
  to(*g);
  return CURAND_STATUS_SUCCESS;
}

// 0: no quasirandom generator.
unsigned bits_of(curandGenerator_t handle) {
  const Generator* const g = generator_of(handle);
  const std::optional<Sobol> sobol = g ? sobol_of(g->type) : std::nullopt;
  return sobol ? sobol->bits() : 0;
}

constexpr unsigned kPublishedDimensions = 20000;
constexpr char kMoreDimensions[] = "more than 3667 dimensions of cuRAND's quasirandom numbers";

// As many as cuRAND has: zeros where there are no numbers for them. They stay until the process ends.
template <class T>
T* table_of(size_t each) {
  static char said;
  devtrace_sim_unsupported(kMoreDimensions, &said, 0);
  return static_cast<T*>(std::calloc(kPublishedDimensions * each, sizeof(T)));
}

template <unsigned kBits, class T>
curandStatus_t give_vectors(T* vectors[], curandDirectionVectorSet_t set, curandDirectionVectorSet_t plain,
                            curandDirectionVectorSet_t scrambled) {
  using Word = std::remove_extent_t<T>;
  const auto make = [](bool mixed) {
    Word* const table = table_of<Word>(kBits);
    for (unsigned d = 0; table && d < kMostDimensions; ++d) {
      const std::vector<uint64_t> all = direction_vectors(d, kBits, mixed);
      for (unsigned i = 0; i < kBits; ++i) table[d * kBits + i] = static_cast<Word>(all[i]);
    }
    return reinterpret_cast<T*>(table);
  };
  static T* tables[2] = {};
  static std::once_flag once[2];
  if (!vectors || (set != plain && set != scrambled)) return CURAND_STATUS_OUT_OF_RANGE;
  const bool mixed = set == scrambled;
  std::call_once(once[mixed], [&] { tables[mixed] = make(mixed); });
  *vectors = tables[mixed];
  return tables[mixed] ? CURAND_STATUS_SUCCESS : CURAND_STATUS_ALLOCATION_FAILED;
}

template <class Word>
curandStatus_t give_constants(Word** constants, unsigned bits) {
  if (!constants) return CURAND_STATUS_OUT_OF_RANGE;
  static Word* const table = [bits] {
    Word* const made = table_of<Word>(1);
    for (unsigned d = 0; made && d < kMostDimensions; ++d) made[d] = static_cast<Word>(scramble_constant(d, bits));
    return made;
  }();
  *constants = table;
  return table ? CURAND_STATUS_SUCCESS : CURAND_STATUS_ALLOCATION_FAILED;
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
  const sim::Generator* const known = sim::generator_of(generator);
  if (known && !sim::is_pseudorandom(known->type)) return CURAND_STATUS_TYPE_ERROR;
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
curandStatus_t CURANDAPI curandSetQuasiRandomGeneratorDimensions(curandGenerator_t generator, unsigned int count) {
  static char said;
  const sim::Generator* const g = sim::generator_of(generator);
  if (!g) return CURAND_STATUS_NOT_INITIALIZED;
  if (!sim::sobol_of(g->type)) return CURAND_STATUS_TYPE_ERROR;
  if (count < 1 || count > sim::kPublishedDimensions) return CURAND_STATUS_OUT_OF_RANGE;
  if (count > sim::kMostDimensions)
    return static_cast<curandStatus_t>(
        sim::devtrace_sim_unsupported(sim::kMoreDimensions, &said, CURAND_STATUS_OUT_OF_RANGE));
  return sim::change(generator, [&](sim::Generator& g) { g.dimensions = count, g.source.reset(); });
}
curandStatus_t CURANDAPI curandGenerateSeeds(curandGenerator_t generator) {
  return sim::change(generator, sim::start);
}

curandStatus_t CURANDAPI curandGenerate(curandGenerator_t generator, unsigned int* out, size_t count) {
  if (sim::bits_of(generator) == 64) return CURAND_STATUS_TYPE_ERROR;
  const auto fill = [=](auto& bits) {
    for (size_t i = 0; i < count; ++i) out[i] = bits();
  };
  return sim::generate("curandGenerate", generator, out, count, fill,
                       [](uint64_t word, unsigned) { return static_cast<unsigned>(word); });
}
// Of 64-bit quasirandom generators only.
curandStatus_t CURANDAPI curandGenerateLongLong(curandGenerator_t generator, unsigned long long* out, size_t count) {
  if (!sim::generator_of(generator)) return CURAND_STATUS_NOT_INITIALIZED;
  if (sim::bits_of(generator) != 64) return CURAND_STATUS_TYPE_ERROR;
  return sim::generate(
      "curandGenerateLongLong", generator, out, count, [](auto&) {},
      [](uint64_t word, unsigned) { return static_cast<unsigned long long>(word); });
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
  const auto fill = [=](auto& bits) {
    std::poisson_distribution<unsigned> drawn(lambda);
    sim::Standard<std::remove_reference_t<decltype(bits)>> standard{bits};
    for (size_t i = 0; i < count; ++i) out[i] = drawn(standard);
  };
  return sim::generate("curandGeneratePoisson", generator, out, count, fill,
                       [=](uint64_t word, unsigned bits) { return sim::quasi_poisson(word, bits, lambda); });
}
curandStatus_t CURANDAPI curandGeneratePoissonMethod(curandGenerator_t generator, unsigned int* out, size_t count,
                                                     double lambda, curandMethod_t) {
  return curandGeneratePoisson(generator, out, count, lambda);
}

curandStatus_t CURANDAPI curandGetDirectionVectors32(curandDirectionVectors32_t* vectors[],
                                                     curandDirectionVectorSet_t set) {
  return sim::give_vectors<32>(vectors, set, CURAND_DIRECTION_VECTORS_32_JOEKUO6,
                               CURAND_SCRAMBLED_DIRECTION_VECTORS_32_JOEKUO6);
}
curandStatus_t CURANDAPI curandGetDirectionVectors64(curandDirectionVectors64_t* vectors[],
                                                     curandDirectionVectorSet_t set) {
  return sim::give_vectors<64>(vectors, set, CURAND_DIRECTION_VECTORS_64_JOEKUO6,
                               CURAND_SCRAMBLED_DIRECTION_VECTORS_64_JOEKUO6);
}
curandStatus_t CURANDAPI curandGetScrambleConstants32(unsigned int** constants) {
  return sim::give_constants(constants, 32);
}
curandStatus_t CURANDAPI curandGetScrambleConstants64(unsigned long long** constants) {
  return sim::give_constants(constants, 64);
}

}  // extern "C"
