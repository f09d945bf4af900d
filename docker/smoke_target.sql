DROP TABLE IF EXISTS orders;
CREATE TABLE orders (id bigint PRIMARY KEY, amount decimal(18, 4), note text);
INSERT INTO orders SELECT seq, seq * 1.25, CONCAT('order ', seq) FROM seq_1_to_1001;
UPDATE orders SET amount = amount + 1 WHERE id = 500;
DELETE FROM orders WHERE id = 7;
