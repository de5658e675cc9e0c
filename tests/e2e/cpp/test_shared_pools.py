"""A memory pool of another process: opened by a descriptor that crosses a socket, its allocations by data that do."""

from cpp_programs import build, run

PROGRAM = r"""
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
void send_file(int socket, int file) {
  char byte = 0, control[CMSG_SPACE(sizeof file)] = {};
  iovec data = {&byte, 1};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof file);
  std::memcpy(CMSG_DATA(head), &file, sizeof file);
  sendmsg(socket, &message, 0);
}
int receive_file(int socket) {
  int file = -1;
  char byte, control[CMSG_SPACE(sizeof file)];
  iovec data = {&byte, 1};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  recvmsg(socket, &message, 0);
  std::memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
  return file;
}
void owner(int socket) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 1};
  cudaMemPool_t pool, closed;
  cudaMemPoolCreate(&closed, &properties);
  int file = -1;
  std::printf("%d ", cudaMemPoolExportToShareableHandle(&file, closed, cudaMemHandleTypePosixFileDescriptor, 0));
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  cudaMemPoolCreate(&pool, &properties);
  std::printf("%d ", cudaMemPoolExportToShareableHandle(&file, pool, cudaMemHandleTypePosixFileDescriptor, 0));
  int *first, *numbers, *plain, back[2] = {};
  cudaSetDevice(1);
  cudaMallocFromPoolAsync((void**)&first, 1000, pool, 0);
  cudaMallocFromPoolAsync((void**)&numbers, 1000, pool, 0);
  cudaMalloc((void**)&plain, 1000);
  const int given[2] = {7, 8};
  cudaMemcpy(numbers, given, sizeof given, cudaMemcpyHostToDevice);
  cudaMemPoolPtrExportData exported;
  std::printf("%d ", cudaMemPoolExportPointer(&exported, plain));
  std::printf("%d\n", cudaMemPoolExportPointer(&exported, numbers));
  send_file(socket, file);
  write(socket, &exported, sizeof exported);
  char done;
  read(socket, &done, 1);
  cudaMemcpy(back, numbers, sizeof back, cudaMemcpyDeviceToHost);
  std::printf("%d %d %d\n", back[0], back[1], cudaFreeAsync(numbers, 0));
}
void user(int socket) {
  const int file = receive_file(socket);
  cudaMemPoolPtrExportData exported;
  read(socket, &exported, sizeof exported);
  cudaMemPool_t pool, own;
  std::printf("%d ", cudaMemPoolImportFromShareableHandle(&pool, (void*)(long)file, cudaMemHandleTypePosixFileDescriptor, 0));
  cudaSetDevice(1);
  cudaDeviceGetDefaultMemPool(&own, 1);
  int *numbers, *more, back[2] = {};
  std::printf("%d ", cudaMemPoolImportPointer((void**)&numbers, own, &exported));
  std::printf("%d ", cudaMemPoolImportPointer((void**)&numbers, pool, &exported));
  std::printf("%d ", cudaMallocFromPoolAsync((void**)&more, 1000, pool, 0));
  cudaPointerAttributes attributes;
  cudaPointerGetAttributes(&attributes, numbers);
  cudaMemcpy(back, numbers, sizeof back, cudaMemcpyDeviceToHost);
  std::printf("%d %d %d ", attributes.device, back[0], back[1]);
  back[0] = 9;
  cudaMemcpy(numbers, back, sizeof(int), cudaMemcpyHostToDevice);
  const int freed = cudaFreeAsync(numbers, 0);
  cudaStreamSynchronize(0);
  std::printf("%d %d\n", freed, cudaFree(numbers));
  std::fflush(stdout);
  write(socket, "", 1);
}
int main() {
  int sockets[2];
  socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
  if (!fork()) {
    user(sockets[1]);
    return 0;
  }
  owner(sockets[0]);
  wait(nullptr);
}
"""


def test_a_pool_is_opened_by_another_process(tmp_path):
    program = build(tmp_path, PROGRAM)
    outcome = run(program, folder=tmp_path)
    assert outcome.code == 0 and outcome.findings == [], outcome.err
    assert sorted(outcome.out.splitlines()) == ["0 1 0 1 1 7 8 0 1", "1 0 1 0", "9 8 0"], outcome.out + outcome.err
