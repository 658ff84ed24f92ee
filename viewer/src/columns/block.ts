/** Blocks of the row index: the binary format that `nemo_gym/rollouts/output/row_index.py` describes. */

export type Value = number | string | null;
export type Packed = Int8Array | Int16Array | Int32Array | Float64Array;
export type Kind = "i1" | "i2" | "i4" | "f8";

export type BlockColumn =
  | { name: string; form: "same"; value: Value }
  | { name: string; form: "numbers"; kind: Kind; data: Packed }
  | { name: string; form: "coded"; values: Value[]; data: Packed };

export interface Block {
  rows: number;
  /** The offset of the first row in the decompressed file. */
  start: number;
  end: number;
  columns: BlockColumn[];
}

interface HeadColumn {
  name: string;
  same?: Value;
  kind?: Kind;
  values?: Value[];
  at?: number;
}

const MAGIC = 0x3149474e; // "NGI1"
const FRAME = 16;
const ARRAYS = { i1: Int8Array, i2: Int16Array, i4: Int32Array, f8: Float64Array };

/** The number of bytes of the block at `at`; 0 if it is not whole. Throws if no block begins there. */
export function blockLength(bytes: Uint8Array, at: number): number {
  if (bytes.length - at < FRAME) return 0;
  const view = new DataView(bytes.buffer, bytes.byteOffset + at, FRAME);
  if (view.getUint32(0, true) !== MAGIC) throw new Error(`No block of an index begins at byte ${at}.`);
  const length = FRAME + view.getUint32(4, true) + view.getUint32(8, true);
  return at + length <= bytes.length ? length : 0;
}

/** Decode the whole blocks at the beginning of `bytes`. */
export function decodeBlocks(bytes: Uint8Array): Block[] {
  const blocks: Block[] = [];
  let at = 0;
  for (let length = blockLength(bytes, at); length > 0; length = blockLength(bytes, at)) {
    blocks.push(decodeBlock(bytes.subarray(at, at + length)));
    at += length;
    if (at === bytes.length) break;
  }
  return blocks;
}

function decodeBlock(bytes: Uint8Array): Block {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const headLength = view.getUint32(4, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(FRAME, FRAME + headLength)));
  const body = new Uint8Array(bytes.subarray(FRAME + headLength)); // a copy: typed arrays need an aligned offset
  const columns = (head.columns as HeadColumn[]).map((column) => decodeColumn(column, head.rows, body));
  return { rows: head.rows, start: head.start, end: head.end, columns };
}

function decodeColumn(column: HeadColumn, rows: number, body: Uint8Array<ArrayBuffer>): BlockColumn {
  const { name, kind, values, at } = column;
  if (kind === undefined || at === undefined) return { name, form: "same", value: column.same ?? null };
  const data = new ARRAYS[kind](body.buffer, body.byteOffset + at, rows);
  return values ? { name, form: "coded", values, data } : { name, form: "numbers", kind, data };
}
