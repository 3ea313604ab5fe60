// Prints a line for each test of jest: `jest: PASSED src/a.spec.js > its full name`.
module.exports = class {
  constructor(config) {
    this.root = config.rootDir + '/'
  }

  onTestResult(test, result) {
    const file = test.path.replace(this.root, '')
    if (result.testExecError) console.log(`jest: FAILED ${file} > its first lines`)
    for (const { fullName, status, failureMessages } of result.testResults) {
      const word = status === 'passed' ? 'PASSED' : status === 'failed' ? 'FAILED' : 'SKIPPED'
      console.log(`jest: ${word} ${file} > ${fullName.replace(/\s+/g, ' ')}`)
      for (const message of failureMessages || []) console.log(message)
    }
  }
}
