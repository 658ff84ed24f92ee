/**
 * Markdown as elements. The text comes from a model, so nothing of it becomes HTML: the tokens of the parser are turned
 * into elements one by one, HTML is shown as text, and neither links nor images load anything.
 */

import { lexer, type Token, type Tokens } from "marked";
import type { ComponentChildren, VNode } from "preact";

const DEEPEST = 24;

export function Markdown({ text }: { text: string }): VNode {
  let tokens: Token[];
  try {
    tokens = lexer(text, { gfm: true });
  } catch {
    return <pre class="text">{text}</pre>; // the parser gives up on some texts, such as very deep nests
  }
  return <div class="markdown">{blocks(tokens, 0)}</div>;
}

function blocks(tokens: Token[] | undefined, depth: number): ComponentChildren {
  if (depth > DEEPEST) return (tokens ?? []).map((token) => token.raw).join("");
  return (tokens ?? []).map((token, at) => <Block key={at} token={token} depth={depth + 1} />);
}

function Block({ token, depth }: { token: Token; depth: number }): VNode {
  const inner = (): ComponentChildren => blocks("tokens" in token ? token.tokens : undefined, depth);
  switch (token.type) {
    case "space":
    case "def":
      return <></>;
    case "heading":
      return <p class={`heading heading-${(token as Tokens.Heading).depth}`}>{inner()}</p>;
    case "paragraph":
      return <p>{inner()}</p>;
    case "blockquote":
      return <blockquote>{inner()}</blockquote>;
    case "code":
      return <pre class="code">{(token as Tokens.Code).text}</pre>;
    case "hr":
      return <hr />;
    case "list":
      return <List token={token as Tokens.List} depth={depth} />;
    case "table":
      return <Table token={token as Tokens.Table} depth={depth} />;
    case "strong":
      return <strong>{inner()}</strong>;
    case "em":
      return <em>{inner()}</em>;
    case "del":
      return <del>{inner()}</del>;
    case "codespan":
      return <code>{(token as Tokens.Codespan).text}</code>;
    case "br":
      return <br />;
    case "link":
      return <Link token={token as Tokens.Link} depth={depth} />;
    case "image":
      return <span class="reference">{token.raw}</span>;
    case "text":
    case "escape":
      return <>{"tokens" in token && token.tokens ? inner() : (token as Tokens.Text).text}</>;
    default:
      return <span>{token.raw}</span>;
  }
}

function Link({ token, depth }: { token: Tokens.Link; depth: number }): VNode {
  if (token.text === token.href) return <span class="reference">{token.href}</span>;
  return (
    <span>
      {blocks(token.tokens, depth)} <span class="reference">({token.href})</span>
    </span>
  );
}

function List({ token, depth }: { token: Tokens.List; depth: number }): VNode {
  const items = token.items.map((item, at) => (
    <li key={at}>
      {item.task && (item.checked ? "☑ " : "☐ ")}
      {blocks(item.tokens, depth)}
    </li>
  ));
  return token.ordered ? <ol start={Number(token.start) || 1}>{items}</ol> : <ul>{items}</ul>;
}

function Table({ token, depth }: { token: Tokens.Table; depth: number }): VNode {
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>{token.header.map((cell, at) => <th key={at}>{blocks(cell.tokens, depth)}</th>)}</tr>
        </thead>
        <tbody>
          {token.rows.map((row, at) => (
            <tr key={at}>{row.map((cell, column) => <td key={column}>{blocks(cell.tokens, depth)}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
