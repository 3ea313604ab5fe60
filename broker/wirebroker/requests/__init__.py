"""One request: its connection, its client with its rights, its facts, its errors, its effects. A proxy uses most of this
package, too.
"""
