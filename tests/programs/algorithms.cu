// Algorithms of Thrust and CUB on a device, each beside the same of Thrust's on the host. Prints the names of those that differ, then how many there are.
#include <algorithm>
#include <cstdio>
#include <cub/cub.cuh>
#include <thrust/adjacent_difference.h>
#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/device_vector.h>
#include <thrust/equal.h>
#include <thrust/extrema.h>
#include <thrust/fill.h>
#include <thrust/find.h>
#include <thrust/for_each.h>
#include <thrust/gather.h>
#include <thrust/generate.h>
#include <thrust/host_vector.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/logical.h>
#include <thrust/merge.h>
#include <thrust/mismatch.h>
#include <thrust/partition.h>
#include <thrust/reduce.h>
#include <thrust/remove.h>
#include <thrust/replace.h>
#include <thrust/reverse.h>
#include <thrust/scan.h>
#include <thrust/scatter.h>
#include <thrust/sequence.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/swap.h>
#include <thrust/tabulate.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/transform_scan.h>
#include <thrust/unique.h>

using Host = thrust::host_vector<int>;
using Device = thrust::device_vector<int>;

constexpr int kCount = 3000;  // more than a block and than a tile

struct Square { __host__ __device__ int operator()(int x) const { return x * x; } };
struct Even { __host__ __device__ bool operator()(int x) const { return x % 2 == 0; } };
struct Less100 { __host__ __device__ bool operator()(int x) const { return x < 100; } };
struct ByLastDigit { __host__ __device__ bool operator()(int a, int b) const { return a % 10 < b % 10; } };
struct Mixed { __host__ __device__ int operator()(int a, int b) const { return 3 * a - b; } };
struct Add { __host__ __device__ void operator()(int& x) const { x += 5; } };
struct Seven { __host__ __device__ int operator()() const { return 7; } };

static int total = 0, wrong = 0;
static void judge(const char* name, bool same) {
  ++total;
  if (same) return;
  ++wrong;
  std::printf("%s differs\n", name);
}

// Its numbers: unsorted with repetitions, sorted, keys in runs.
template <class V>
struct Numbers {
  V a = V(kCount), b = V(kCount), sorted = V(kCount), other = V(kCount), keys = V(kCount), out = V(2 * kCount), out2 = V(2 * kCount);
  explicit Numbers(const Numbers<Host>& from) : a(from.a), b(from.b), sorted(from.sorted), other(from.other), keys(from.keys), out(from.out), out2(from.out2) {}
  Numbers() {
    unsigned state = 12345;
    for (int i = 0; i < kCount; ++i) {
      state = state * 1664525u + 1013904223u;
      a[i] = static_cast<int>(state >> 20) - 1500;
      b[i] = static_cast<int>((state >> 8) % 97);
      sorted[i] = i * 3 / 2;
      other[i] = i * 5 / 3;
      keys[i] = i / 7;
    }
  }
};
static const Numbers<Host>& numbers() {
  static const Numbers<Host> all;
  return all;
}

// The same with the vectors of either side; what it returns and leaves must be the same.
template <class Algorithm>
void both(const char* name, Algorithm algorithm) {
  Numbers<Host> host(numbers());
  Numbers<Device> device(numbers());
  const long of_host = static_cast<long>(algorithm(host));
  const long of_device = static_cast<long>(algorithm(device));
  judge(name, of_host == of_device && host.a == Host(device.a) && host.b == Host(device.b) && host.out == Host(device.out) && host.out2 == Host(device.out2));
}
#define BOTH(name, ...) both(name, [](auto& n) -> long { __VA_ARGS__; })
#define ALL(v) n.v.begin(), n.v.end()

// Thrust's own on the host (3.0) leaves numbers with a sign in disorder.
template <class Less>
void sort(Host& v, Less less) { std::sort(v.begin(), v.end(), less); }
template <class Less>
void sort(Device& v, Less less) { thrust::sort(v.begin(), v.end(), less); }

#if PART == 1
static void part() {
  BOTH("transform", thrust::transform(ALL(a), n.out.begin(), Square()); return 0);
  BOTH("transform of two", thrust::transform(ALL(a), n.b.begin(), n.out.begin(), Mixed()); return 0);
  BOTH("reduce", return thrust::reduce(ALL(a)));
  BOTH("reduce maximum", return thrust::reduce(ALL(a), -9999, thrust::maximum<int>()));
  BOTH("transform_reduce", return thrust::transform_reduce(ALL(b), Square(), 0, thrust::plus<int>()));
  BOTH("inner_product", return thrust::inner_product(ALL(b), n.keys.begin(), 0));
  BOTH("inclusive_scan", thrust::inclusive_scan(ALL(a), n.out.begin()); return 0);
  BOTH("exclusive_scan", thrust::exclusive_scan(ALL(a), n.out.begin(), 4); return 0);
  BOTH("transform_inclusive_scan", thrust::transform_inclusive_scan(ALL(b), n.out.begin(), Square(), thrust::plus<int>()); return 0);
  BOTH("transform_exclusive_scan", thrust::transform_exclusive_scan(ALL(b), n.out.begin(), Square(), 1, thrust::plus<int>()); return 0);
  BOTH("inclusive_scan_by_key", thrust::inclusive_scan_by_key(ALL(keys), n.a.begin(), n.out.begin()); return 0);
  BOTH("exclusive_scan_by_key", thrust::exclusive_scan_by_key(ALL(keys), n.a.begin(), n.out.begin()); return 0);
  BOTH("reduce_by_key", return thrust::reduce_by_key(ALL(keys), n.a.begin(), n.out.begin(), n.out2.begin()).first - n.out.begin());
  BOTH("count", return thrust::count(ALL(b), 5));
  BOTH("count_if", return thrust::count_if(ALL(a), Even()));
  BOTH("adjacent_difference", thrust::adjacent_difference(ALL(a), n.out.begin()); return 0);
}
#elif PART == 2
static void part() {
  BOTH("sort", sort(n.a, thrust::less<int>()); return 0);
  BOTH("sort downwards", sort(n.a, thrust::greater<int>()); return 0);
  BOTH("stable_sort", thrust::stable_sort(ALL(b), ByLastDigit()); return 0);
  BOTH("sort_by_key", thrust::stable_sort_by_key(ALL(b), n.a.begin()); return 0);
  BOTH("stable_sort_by_key", thrust::stable_sort_by_key(ALL(b), n.a.begin(), ByLastDigit()); return 0);
  BOTH("unique", return thrust::unique(ALL(keys)) - n.keys.begin());
  BOTH("unique_copy", return thrust::unique_copy(ALL(keys), n.out.begin()) - n.out.begin());
  BOTH("unique_by_key", return thrust::unique_by_key_copy(ALL(keys), n.a.begin(), n.out.begin(), n.out2.begin()).first - n.out.begin());
  BOTH("merge", thrust::merge(ALL(sorted), ALL(other), n.out.begin()); return 0);
  BOTH("merge_by_key", thrust::merge_by_key(ALL(sorted), ALL(other), n.a.begin(), n.b.begin(), n.out.begin(), n.out2.begin()); return 0);
  BOTH("set_union", return thrust::set_union(ALL(sorted), ALL(other), n.out.begin()) - n.out.begin());
  BOTH("set_intersection", return thrust::set_intersection(ALL(sorted), ALL(other), n.out.begin()) - n.out.begin());
  BOTH("set_difference", return thrust::set_difference(ALL(sorted), ALL(other), n.out.begin()) - n.out.begin());
  BOTH("set_symmetric_difference", return thrust::set_symmetric_difference(ALL(sorted), ALL(other), n.out.begin()) - n.out.begin());
  BOTH("is_sorted", return thrust::is_sorted(ALL(sorted)) + 2 * thrust::is_sorted(ALL(a)));
  BOTH("is_sorted_until", return thrust::is_sorted_until(ALL(a)) - n.a.begin());
}
#elif PART == 3
static void part() {
  BOTH("copy_if", return thrust::copy_if(ALL(a), n.out.begin(), Even()) - n.out.begin());
  BOTH("copy_if by another", return thrust::copy_if(ALL(a), n.b.begin(), n.out.begin(), Even()) - n.out.begin());
  BOTH("remove_copy_if", return thrust::remove_copy_if(ALL(a), n.out.begin(), Even()) - n.out.begin());
  BOTH("remove_copy", return thrust::remove_copy(ALL(b), n.out.begin(), 5) - n.out.begin());
  BOTH("stable_partition", return thrust::stable_partition(ALL(a), Even()) - n.a.begin());
  BOTH("partition_copy", return thrust::stable_partition_copy(ALL(a), n.out.begin(), n.out2.begin(), Even()).first - n.out.begin());
  BOTH("is_partitioned", return thrust::is_partitioned(ALL(sorted), Less100()) + 2 * thrust::is_partitioned(ALL(a), Even()));
  BOTH("replace", thrust::replace(ALL(b), 5, -1); return 0);
  BOTH("replace_if", thrust::replace_if(ALL(a), Even(), 0); return 0);
  BOTH("fill", thrust::fill(ALL(out), 9); return 0);
  BOTH("sequence", thrust::sequence(ALL(out), 3, 2); return 0);
  BOTH("tabulate", thrust::tabulate(ALL(out), Square()); return 0);
  BOTH("generate", thrust::generate(ALL(out), Seven()); return 0);
  BOTH("gather", thrust::gather(ALL(keys), n.a.begin(), n.out.begin()); return 0);
  BOTH("scatter", thrust::scatter(ALL(a), thrust::counting_iterator<int>(kCount / 2), n.out.begin()); return 0);
  BOTH("scatter_if", thrust::scatter_if(ALL(a), thrust::counting_iterator<int>(0), n.b.begin(), n.out.begin(), Even()); return 0);
}
#elif PART == 4
static void part() {
  BOTH("reverse", thrust::reverse(ALL(a)); return 0);
  BOTH("swap_ranges", thrust::swap_ranges(ALL(a), n.b.begin()); return 0);
  BOTH("find", return thrust::find(ALL(b), 13) - n.b.begin());
  BOTH("find_if", return thrust::find_if(ALL(a), Less100()) - n.a.begin());
  BOTH("min_element", return thrust::min_element(ALL(a)) - n.a.begin());
  BOTH("max_element", return thrust::max_element(ALL(a)) - n.a.begin());
  BOTH("minmax_element", return thrust::minmax_element(ALL(b)).second - n.b.begin());
  BOTH("equal", return thrust::equal(ALL(a), n.b.begin()) + 2 * thrust::equal(ALL(a), n.a.begin()));
  BOTH("mismatch", return thrust::mismatch(ALL(sorted), n.other.begin()).first - n.sorted.begin());
  BOTH("lower_bound", thrust::lower_bound(ALL(sorted), ALL(b), n.out.begin()); return 0);
  BOTH("upper_bound", thrust::upper_bound(ALL(sorted), ALL(b), n.out.begin()); return 0);
  BOTH("binary_search", thrust::binary_search(ALL(sorted), ALL(b), n.out.begin()); return 0);
  BOTH("all_of", return thrust::all_of(ALL(a), Even()) + 2 * thrust::all_of(ALL(b), Less100()));
  BOTH("any_of", return thrust::any_of(ALL(a), Even()));
  BOTH("none_of", return thrust::none_of(ALL(b), Less100()));
  BOTH("for_each", thrust::for_each(ALL(a), Add()); return 0);
}
#else
// Of CUB's functions, which ask for their scratch memory first. `expected` and what lies in `out` must be the same.
template <class Call>
void run(const char* name, const Host& expected, Device& out, Call call) {
  void* scratch = nullptr;
  size_t bytes = 0;
  call(scratch, bytes);
  Device memory((bytes + 3) / 4 + 1);
  scratch = thrust::raw_pointer_cast(memory.data());
  call(scratch, bytes);
  const bool ran = cudaDeviceSynchronize() == cudaSuccess;
  const Host found(out.begin(), out.begin() + static_cast<long>(expected.size()));
  judge(name, ran && found == expected);
}
static Host one(int value) { return Host(1, value); }
static void part() {
  const Numbers<Host>& n = numbers();
  Device a(n.a), b(n.b), keys(n.keys), out(2 * kCount), out2(2 * kCount), many(1);
  const int* const pa = thrust::raw_pointer_cast(a.data());
  const int* const pb = thrust::raw_pointer_cast(b.data());
  const int* const pk = thrust::raw_pointer_cast(keys.data());
  int* const po = thrust::raw_pointer_cast(out.data());
  int* const po2 = thrust::raw_pointer_cast(out2.data());
  int* const pm = thrust::raw_pointer_cast(many.data());
  run("DeviceReduce::Sum", one(thrust::reduce(ALL(a))), out, [&](void* s, size_t& z) { cub::DeviceReduce::Sum(s, z, pa, po, kCount); });
  run("DeviceReduce::Min", one(*thrust::min_element(ALL(a))), out, [&](void* s, size_t& z) { cub::DeviceReduce::Min(s, z, pa, po, kCount); });
  run("DeviceReduce::Max", one(*thrust::max_element(ALL(a))), out, [&](void* s, size_t& z) { cub::DeviceReduce::Max(s, z, pa, po, kCount); });
  Host expected(kCount);
  thrust::inclusive_scan(ALL(a), expected.begin());
  run("DeviceScan::InclusiveSum", expected, out, [&](void* s, size_t& z) { cub::DeviceScan::InclusiveSum(s, z, pa, po, kCount); });
  thrust::exclusive_scan(ALL(a), expected.begin());
  run("DeviceScan::ExclusiveSum", expected, out, [&](void* s, size_t& z) { cub::DeviceScan::ExclusiveSum(s, z, pa, po, kCount); });
  expected = n.a;
  sort(expected, thrust::less<int>());
  run("DeviceRadixSort::SortKeys", expected, out, [&](void* s, size_t& z) { cub::DeviceRadixSort::SortKeys(s, z, pa, po, kCount); });
  run("DeviceMergeSort::SortKeysCopy", expected, out, [&](void* s, size_t& z) { cub::DeviceMergeSort::SortKeysCopy(s, z, pa, po, kCount, thrust::less<int>()); });
  thrust::reverse(expected.begin(), expected.end());
  run("DeviceRadixSort::SortKeysDescending", expected, out, [&](void* s, size_t& z) { cub::DeviceRadixSort::SortKeysDescending(s, z, pa, po, kCount); });
  Host sorted_keys(n.b);
  expected = n.a;
  thrust::stable_sort_by_key(sorted_keys.begin(), sorted_keys.end(), expected.begin());
  run("DeviceRadixSort::SortPairs", expected, out2, [&](void* s, size_t& z) { cub::DeviceRadixSort::SortPairs(s, z, pb, po, pa, po2, kCount); });
  Host some(kCount);
  some.resize(thrust::copy_if(ALL(a), some.begin(), Even()) - some.begin());
  run("DeviceSelect::If", some, out, [&](void* s, size_t& z) { cub::DeviceSelect::If(s, z, pa, po, pm, kCount, Even()); });
  Host unique(kCount);
  unique.resize(thrust::unique_copy(ALL(keys), unique.begin()) - unique.begin());
  run("DeviceSelect::Unique", unique, out, [&](void* s, size_t& z) { cub::DeviceSelect::Unique(s, z, pk, po, pm, kCount); });
  run("DeviceRunLengthEncode::Encode", unique, out, [&](void* s, size_t& z) { cub::DeviceRunLengthEncode::Encode(s, z, pk, po, po2, pm, kCount); });
  Host sums(kCount), of(kCount);
  sums.resize(thrust::reduce_by_key(ALL(keys), n.a.begin(), of.begin(), sums.begin()).second - sums.begin());
  run("DeviceReduce::ReduceByKey", sums, out2, [&](void* s, size_t& z) { cub::DeviceReduce::ReduceByKey(s, z, pk, po, pa, po2, pm, thrust::plus<int>(), kCount); });
  Host bins(10);
  for (const int each : n.b)
    if (each < 90) ++bins[each / 9];
  run("DeviceHistogram::HistogramEven", bins, out, [&](void* s, size_t& z) { cub::DeviceHistogram::HistogramEven(s, z, pb, po, 11, 0, 90, kCount); });
  Host ends(3);
  ends[1] = 1000, ends[2] = kCount;
  Device device_ends(ends);
  const int* const pe = thrust::raw_pointer_cast(device_ends.data());
  Host segments(2);
  segments[0] = thrust::reduce(n.a.begin(), n.a.begin() + 1000);
  segments[1] = thrust::reduce(n.a.begin() + 1000, n.a.end());
  run("DeviceSegmentedReduce::Sum", segments, out, [&](void* s, size_t& z) { cub::DeviceSegmentedReduce::Sum(s, z, pa, po, 2, pe, pe + 1); });
  expected = n.a;
  std::sort(expected.begin(), expected.begin() + 1000);
  std::sort(expected.begin() + 1000, expected.end());
  run("DeviceSegmentedRadixSort::SortKeys", expected, out, [&](void* s, size_t& z) { cub::DeviceSegmentedRadixSort::SortKeys(s, z, pa, po, kCount, 2, pe, pe + 1); });
}
#endif

int main() {
  part();
  std::printf("%d of %d\n", total - wrong, total);
  return wrong;
}
