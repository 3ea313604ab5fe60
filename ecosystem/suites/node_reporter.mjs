// Prints a line for each test of `node --test`: `node: PASSED test/a.test.ts > its name`.
const root = process.cwd() + '/'

export default async function* (source) {
  for await (const { type, data } of source) {
    if (type !== 'test:pass' && type !== 'test:fail') continue
    if (data.details?.type === 'suite' || data.name.startsWith(root) || data.name === data.file?.replace(root, '')) continue
    const word = data.skip !== undefined || data.todo !== undefined ? 'SKIPPED' : type === 'test:pass' ? 'PASSED' : 'FAILED'
    yield `node: ${word} ${data.file?.replace(root, '')} > ${data.name.replace(/\s+/g, ' ')}\n`
    if (word === 'FAILED') yield `${data.details?.error?.cause?.stack ?? data.details?.error}\n`
  }
}
