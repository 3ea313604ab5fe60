/* Counts the bytes that a process copies through memcpy and its relatives. LD_PRELOAD puts it before the C library.

   The first eight bytes of the file that WIREBROKER_COPIED names hold the sum. Copies of a few bytes that the compiler wrote as
   moves of registers are not in it, and neither is what the kernel copies. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void *Move(void *, const void *, size_t);

static uint64_t elsewhere;
static uint64_t *copied = &elsewhere;
static Move *move;

__attribute__((constructor)) static void begin(void)
{
    move = (Move *)dlsym(RTLD_NEXT, "memmove");
    const char *path = getenv("WIREBROKER_COPIED");
    int file = path ? open(path, O_RDWR) : -1;
    void *page = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *copied, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page != MAP_FAILED)
        copied = page;
    if (file >= 0)
        close(file);
}

static void *count(void *to, const void *from, size_t size)
{
    __atomic_fetch_add(copied, size, __ATOMIC_RELAXED);
    if (move)
        return move(to, from, size);
    for (size_t i = 0; i < size; i++) /* only the loader calls this early, with pieces that do not overlap */
        ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}

void *memcpy(void *to, const void *from, size_t size) { return count(to, from, size); }
void *memmove(void *to, const void *from, size_t size) { return count(to, from, size); }
void *mempcpy(void *to, const void *from, size_t size) { return (char *)count(to, from, size) + size; }
void *__memcpy_chk(void *to, const void *from, size_t size, size_t room) { return size > room ? abort(), to : count(to, from, size); }
void *__memmove_chk(void *to, const void *from, size_t size, size_t room) { return size > room ? abort(), to : count(to, from, size); }
